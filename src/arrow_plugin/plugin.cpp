#include "arrow_plugin/plugin.hpp"

#include "engine/arrow/version.hpp"

#include <arrow/util/config.h>
#include <cstring>

namespace vibespatial {

std::string StatusText(const arrow::Status &status) {
	auto text = status.message();
	while (!text.empty() && (text.back() == '\n' || text.back() == '.')) {
		text.pop_back();
	}
	return text.empty() ? status.CodeAsString() : text;
}

namespace {

class PluginFiles final : public ArrowFiles {
public:
	std::string Version() const override {
		return arrow::GetBuildInfo().version_string;
	}
	std::shared_ptr<const ArrowFile> Open(const ArrowInput &input, std::string &error) const override {
		return OpenArrowFile(input, error);
	}
	std::unique_ptr<ArrowLayout> Layout(const std::vector<std::shared_ptr<const ArrowFile>> &files, bool by_name,
	                                    std::string &error) const override {
		return MakeArrowLayout(files, by_name, error);
	}
	std::unique_ptr<ArrowWriter> Create(ArrowSchema &schema, std::shared_ptr<ArrowSink> sink,
	                                    const ArrowWriteOptions &options, std::string &error) const override {
		return MakeArrowWriter(schema, std::move(sink), options, error);
	}
};

} // namespace
} // namespace vibespatial

extern "C" __attribute__((visibility("default"))) const vibespatial::ArrowFiles *
vibespatial_open_arrow(const char *interface_version, const char **why_not) {
	if (std::strcmp(interface_version, VIBESPATIAL_ARROW_INTERFACE) != 0) {
		*why_not = "the Arrow plug-in is of another version than the extension (" VIBESPATIAL_ARROW_INTERFACE ")";
		return nullptr;
	}
	// Inline code of the headers is in this file, so the library has to be of the same version
	if (arrow::GetBuildInfo().version_major != ARROW_VERSION_MAJOR) {
		*why_not = "libarrow is of another version than Apache Arrow C++ " ARROW_VERSION_STRING
		           ", which the plug-in was built with";
		return nullptr;
	}
	static vibespatial::PluginFiles files;
	return &files;
}
