#include "gpu_plugin/compile/kernel_pack.hpp"

#include "gpu_plugin/compile/sha256.hpp"
#include "engine/common/trusted_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vibespatial {

namespace {

constexpr char MAGIC[8] = {'V', 'I', 'B', 'E', 'P', 'A', 'K', '1'};

struct Header {
	char magic[8];
	uint64_t count;
	uint8_t index_digest[32];
};

struct IndexEntry {
	char name[48];
	int64_t capability;
	uint64_t offset;
	uint64_t size;
};

//! The lines of a key that must agree: name, source and options
std::string SourceLines(const std::string &text) {
	return text.substr(0, text.find("\ncapability "));
}

} // namespace

KernelPack::~KernelPack() {
	if (data) {
		munmap(const_cast<char *>(data), size);
	}
}

bool KernelPack::OpenTrusted(const std::string &path_p) {
	path = path_p;
	return IsTrustedFile(path, problem) && Open(path);
}

bool KernelPack::Open(const std::string &path_p) {
	path = path_p;
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		problem = path + ": " + std::strerror(errno);
		return false;
	}
	struct stat info;
	void *mapped = MAP_FAILED;
	if (fstat(fd, &info) == 0 && info.st_size >= static_cast<off_t>(sizeof(Header))) {
		size = static_cast<size_t>(info.st_size);
		mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	if (mapped == MAP_FAILED) {
		problem = path + " is no release pack";
		return false;
	}
	auto bytes = static_cast<const char *>(mapped);
	Header header;
	std::memcpy(&header, bytes, sizeof(header));
	bool good = std::memcmp(header.magic, MAGIC, sizeof(MAGIC)) == 0 &&
	            header.count <= (size - sizeof(Header)) / sizeof(IndexEntry);
	if (good) {
		Sha256 hash;
		hash.Add(bytes + sizeof(Header), header.count * sizeof(IndexEntry));
		good = std::memcmp(hash.Finish().data(), header.index_digest, sizeof(header.index_digest)) == 0;
	}
	for (uint64_t i = 0; good && i < header.count; i++) {
		IndexEntry entry;
		std::memcpy(&entry, bytes + sizeof(Header) + i * sizeof(IndexEntry), sizeof(entry));
		good = entry.name[sizeof(entry.name) - 1] == 0 && entry.offset <= size && entry.size <= size - entry.offset;
		if (good) {
			places[entry.name][static_cast<int>(entry.capability)] = Place {entry.offset, entry.size};
		}
	}
	if (!good) {
		munmap(mapped, size);
		places.clear();
		problem = path + " is no release pack of this version, or cut short";
		return false;
	}
	data = bytes;
	return true;
}

size_t KernelPack::Count() const {
	size_t count = 0;
	for (auto &name : places) {
		count += name.second.size();
	}
	return count;
}

std::vector<int> KernelPack::Capabilities() const {
	std::set<int> found;
	for (auto &name : places) {
		for (auto &place : name.second) {
			found.insert(place.first);
		}
	}
	return {found.begin(), found.end()};
}

bool KernelPack::Load(const KernelKey &key, std::string &payload, std::string &used, std::string &error) const {
	const auto named = places.find(key.name);
	const Place *best = nullptr;
	if (named != places.end()) {
		for (auto &place : named->second) {
			if (Runs(key.capability, place.first)) {
				best = &place.second; // in ascending order
			}
		}
	}
	if (!best) {
		error = "the release pack has no " + key.name + " for sm_" + std::to_string(key.capability);
		return false;
	}
	std::string text;
	if (!OpenKernel(data + best->offset, best->size, text, payload, error)) {
		error = key.name + " in the release pack " + error;
		return false;
	}
	if (SourceLines(text) != SourceLines(key.Text())) {
		error = key.name + " in the release pack was made from other sources";
		payload.clear();
		return false;
	}
	used = text;
	return true;
}

bool KernelPack::LoadSame(const KernelKey &key, std::string &payload) const {
	const auto named = places.find(key.name);
	if (named == places.end() || named->second.count(key.capability) == 0) {
		return false;
	}
	const auto &place = named->second.at(key.capability);
	std::string error;
	return OpenKernel(data + place.offset, place.size, key, payload, error);
}

void KernelPack::Write(const std::string &path, const std::vector<Item> &items) {
	std::string index, body;
	Header header;
	std::memcpy(header.magic, MAGIC, sizeof(MAGIC));
	header.count = items.size();
	const uint64_t begin = sizeof(header) + items.size() * sizeof(IndexEntry);
	for (auto &item : items) {
		IndexEntry entry {};
		if (item.key.name.size() >= sizeof(entry.name)) {
			throw std::runtime_error(item.key.name + " is too long a name for the release pack");
		}
		std::memcpy(entry.name, item.key.name.data(), item.key.name.size());
		entry.capability = item.key.capability;
		const auto sealed = SealKernel(item.key, item.payload);
		entry.offset = begin + body.size();
		entry.size = sealed.size();
		index.append(reinterpret_cast<const char *>(&entry), sizeof(entry));
		body += sealed;
	}
	Sha256 hash;
	hash.Add(index);
	std::memcpy(header.index_digest, hash.Finish().data(), sizeof(header.index_digest));
	const auto part = path + ".part";
	FILE *file = std::fopen(part.c_str(), "wb");
	bool good = file != nullptr;
	good = good && std::fwrite(&header, sizeof(header), 1, file) == 1;
	good = good && std::fwrite(index.data(), 1, index.size(), file) == index.size();
	good = good && std::fwrite(body.data(), 1, body.size(), file) == body.size();
	good = (file == nullptr || std::fclose(file) == 0) && good;
	if (!good || std::rename(part.c_str(), path.c_str()) != 0) {
		const std::string why = std::strerror(errno);
		std::remove(part.c_str());
		throw std::runtime_error(path + " cannot be written: " + why);
	}
}

} // namespace vibespatial
