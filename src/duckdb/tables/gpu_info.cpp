#include "duckdb/tables/tables.hpp"

#include "duckdb/support/settings.hpp"
#include "duckdb/tables/table_builder.hpp"
#include "engine/gpu/runtime/runtime.hpp"

namespace duckdb {

using vibespatial::GpuComponent;
using vibespatial::GpuRuntime;

namespace {

//! What only the plug-in looks for, and how it is had
struct PluginComponent {
	const char *name;
	const char *purpose;
};
constexpr PluginComponent OF_THE_PLUGIN[] = {
    {"libcuda", "the NVIDIA driver brings it"},
    {"libnvrtc", "compiles kernels; 'pip install nvidia-cuda-nvrtc' gets it"},
    {"libnvJitLink", "links kernels; 'pip install nvidia-nvjitlink' gets it"},
    {"libcccl.c.parallel", "sorts, scans and the like; 'pip install cuda-cccl' gets it"},
    {"CCCL headers", "read when such an algorithm is compiled; 'pip install cuda-cccl' gets them"},
    {"vibespatial-compile", "compiles beside the process; 'make' builds it"},
    {"release pack", "kernels compiled ahead; 'make' builds it"},
    {"disk cache", "kernels compiled here before"},
};

vector<Value> Row(const string &component, Value found, const string &path, const string &version,
                  const string &detail) {
	return {Value(component), std::move(found), TextOrNull(path), TextOrNull(version), TextOrNull(detail)};
}

vector<Value> Row(const GpuComponent &component) {
	return Row(component.name, Value::BOOLEAN(component.found), component.path, component.version, component.detail);
}

//! 13000 is how CUDA writes 13.0
string CudaVersion(int version) {
	return version == 0 ? string() : to_string(version / 1000) + "." + to_string(version % 1000 / 10);
}

SqlTable::rows_t Rows(ClientContext &context, const vector<Value> &) {
	auto &runtime = GpuRuntime::Get();
	SqlTable::rows_t rows;
	string error;
	auto path = runtime.PluginPath(error);
	if (path.empty()) {
		rows.push_back(Row("plug-in", Value::BOOLEAN(false), "", "", error));
	} else {
		auto ready = WaitForGpu(context, GPU_PATIENCE_SECONDS, error);
		auto open = runtime.IfOpen();
		rows.push_back(Row("plug-in", Value::BOOLEAN(true), path, open ? VIBESPATIAL_VERSION : "",
		                   open ? string("open") : "not open: " + error));
		if (open) {
			auto device = open->Device();
			if (device.present) {
				error = StringUtil::Format("%s, %d multiprocessors, fp64 at 1/%d of fp32 (filter %s), %s of %s free",
				                           device.name, device.processors, device.fp64_ratio,
				                           open->UsesRoughEdges() ? "on" : "off",
				                           StringUtil::BytesToHumanReadableString(device.free_memory),
				                           StringUtil::BytesToHumanReadableString(device.total_memory));
			} else if (error.empty()) {
				error = device.error;
			}
			auto capability = device.capability > 0 ? "sm_" + to_string(device.capability) : string();
			rows.push_back(Row("device", Value::BOOLEAN(ready && device.present), "", capability, error));
			rows.push_back(Row("driver", Value::BOOLEAN(device.driver_version > 0), "",
			                   CudaVersion(device.driver_version),
			                   device.driver_version > 0 ? "the newest CUDA that it runs" : "not found"));
			const auto figures = open->Figures();
			const auto problem = figures ? figures->Problem() : string();
			auto measured = !figures ? string("not measured yet: thresholds are those of the reference machine")
			                : !problem.empty() ? "thresholds are those of the reference machine: " + problem
			                                   : figures->Describe() + " (" + figures->source + ")";
			rows.push_back(Row("calibration", Value::BOOLEAN(figures && problem.empty()), "", "", measured));
			for (auto &component : open->Components()) {
				rows.push_back(Row(component));
			}
			return rows;
		}
	}
	// Files of a driver are no device: only the plug-in can tell
	auto device = GpuRuntime::DeviceIsPossible()
	                  ? string("the files of a driver are there; the plug-in, which is not open, looks further")
	                  : string(GpuRuntime::NoDeviceText());
	auto unknown = GpuRuntime::DeviceIsPossible() ? Value(LogicalType::BOOLEAN) : Value::BOOLEAN(false);
	rows.push_back(Row("device", unknown, "", "", device));
	rows.push_back(Row("driver", Value(LogicalType::BOOLEAN), "", "", "not looked for: the plug-in is not open"));
	for (auto &library : runtime.Libraries()) {
		rows.push_back(Row(library));
	}
	for (auto &component : OF_THE_PLUGIN) {
		rows.push_back(Row(component.name, Value(LogicalType::BOOLEAN), "", "",
		                   string("not looked for: the plug-in is not open (") + component.purpose + ")"));
	}
	return rows;
}

} // namespace

void RegisterGpuInfo(ExtensionLoader &loader) {
	SqlTable("vibe_gpu_info",
	         "What the GPU engine needs: whether and where it was found, in which version, and what to do "
	         "where it is missing. Opens the engine, waiting at most 10 seconds.")
	    .Column("component", LogicalType::VARCHAR)
	    .Column("found", LogicalType::BOOLEAN)
	    .Column("path", LogicalType::VARCHAR)
	    .Column("version", LogicalType::VARCHAR)
	    .Column("detail", LogicalType::VARCHAR)
	    .Overload({})
	    .Example("component, found, detail FROM vibe_gpu_info()")
	    .Register(loader, Rows);
}

} // namespace duckdb
