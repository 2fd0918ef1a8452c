#include "gpu_plugin/compile/envelope.hpp"

#include "gpu_plugin/compile/sha256.hpp"

#include <algorithm>
#include <cstring>

namespace vibespatial {

namespace {

//! The number changes with the layout
constexpr char MAGIC[8] = {'V', 'I', 'B', 'E', 'K', 'R', 'N', '1'};

struct Header {
	char magic[8];
	uint64_t key_size;
	uint64_t payload_size;
	uint8_t digest[32];
};

Sha256::Digest DigestOf(const char *key, size_t key_size, const char *payload, size_t payload_size) {
	Sha256 hash;
	hash.Add(&key_size, sizeof(key_size));
	hash.Add(key, key_size);
	hash.Add(payload, payload_size);
	return hash.Finish();
}

} // namespace

std::string KernelKey::Text() const {
	return "name " + name + "\nsource " + source + "\noptions " + options + "\ncapability " +
	       std::to_string(capability) + "\nnvrtc " + nvrtc + "\ncccl " + cccl + "\n";
}

std::string KernelKey::FileName() const {
	return name + "-sm" + std::to_string(capability) + "-" + Sha256::HexOf(Text()).substr(0, 24) + ".kernel";
}

bool BeginsAsKernel(const std::string &bytes) {
	return std::memcmp(bytes.data(), MAGIC, std::min(bytes.size(), KERNEL_MARK_SIZE)) == 0;
}

bool WasKernelOf(const std::string &bytes, const KernelKey &key) {
	const auto text = key.Text();
	return BeginsAsKernel(bytes) ||
	       (bytes.size() >= sizeof(Header) + text.size() && bytes.compare(sizeof(Header), text.size(), text) == 0);
}

std::string SealKernel(const KernelKey &key, const std::string &payload) {
	const auto text = key.Text();
	Header header;
	std::memcpy(header.magic, MAGIC, sizeof(MAGIC));
	header.key_size = text.size();
	header.payload_size = payload.size();
	const auto digest = DigestOf(text.data(), text.size(), payload.data(), payload.size());
	std::memcpy(header.digest, digest.data(), digest.size());
	std::string sealed(reinterpret_cast<const char *>(&header), sizeof(header));
	sealed += text;
	sealed += payload;
	return sealed;
}

bool OpenKernel(const char *data, size_t size, std::string &key_text, std::string &payload, std::string &error) {
	Header header;
	if (size < sizeof(header)) {
		error = "is cut short";
		return false;
	}
	std::memcpy(&header, data, sizeof(header));
	if (std::memcmp(header.magic, MAGIC, sizeof(MAGIC)) != 0) {
		error = "is no kernel of this version of vibespatial";
		return false;
	}
	const size_t rest = size - sizeof(header);
	if (header.key_size > rest || header.payload_size != rest - header.key_size) {
		error = "is cut short or too long";
		return false;
	}
	const char *key = data + sizeof(header), *body = key + header.key_size;
	const auto digest = DigestOf(key, header.key_size, body, header.payload_size);
	if (std::memcmp(digest.data(), header.digest, digest.size()) != 0) {
		error = "is damaged: its SHA-256 is wrong";
		return false;
	}
	key_text.assign(key, header.key_size);
	payload.assign(body, header.payload_size);
	return true;
}

bool OpenKernel(const char *data, size_t size, const KernelKey &key, std::string &payload, std::string &error) {
	std::string text;
	if (!OpenKernel(data, size, text, payload, error)) {
		return false;
	}
	if (text != key.Text()) {
		error = "was made for other sources, options, device or versions";
		payload.clear();
		return false;
	}
	return true;
}

} // namespace vibespatial
