#include "gpu_plugin/compile/compilers.hpp"

#include "gpu_plugin/compile/cccl_abi.hpp"
#include "gpu_plugin/compile/sha256.hpp"

#include <cstring>
#include <vector>

namespace vibespatial {

namespace {

using Program = void *;

std::vector<std::string> UnitOptions(int capability) {
	// Contracted products would differ from the host's to the last bit
	return {"--gpu-architecture=sm_" + std::to_string(capability), "--std=c++17", "--fmad=false",
	        "--device-as-default-execution-space"};
}

//! The functions of NVRTC that are used
struct Nvrtc {
	int (*create)(Program *, const char *, const char *, int, const char *const *, const char *const *);
	int (*destroy)(Program *);
	int (*compile)(Program, int, const char *const *);
	int (*log_size)(Program, size_t *);
	int (*log)(Program, char *);
	int (*cubin_size)(Program, size_t *);
	int (*cubin)(Program, char *);
	const char *(*error_text)(int);
	int (*set_flow)(Program, int (*)(void *, void *), void *); // may be missing

	explicit Nvrtc(const SharedLibrary &library) {
		create = library.Get<decltype(create)>("nvrtcCreateProgram");
		destroy = library.Get<decltype(destroy)>("nvrtcDestroyProgram");
		compile = library.Get<decltype(compile)>("nvrtcCompileProgram");
		log_size = library.Get<decltype(log_size)>("nvrtcGetProgramLogSize");
		log = library.Get<decltype(log)>("nvrtcGetProgramLog");
		cubin_size = library.Get<decltype(cubin_size)>("nvrtcGetCUBINSize");
		cubin = library.Get<decltype(cubin)>("nvrtcGetCUBIN");
		error_text = library.Get<decltype(error_text)>("nvrtcGetErrorString");
		set_flow = library.Get<decltype(set_flow)>("nvrtcSetFlowCallback");
	}
	bool Complete() const {
		return create && destroy && compile && log_size && log && cubin_size && cubin && error_text;
	}
};

int StopWhenCancelled(void *payload, void *) {
	return static_cast<const std::atomic<bool> *>(payload)->load() ? 1 : 0;
}

std::string SourceDigest(const KernelUnit &unit) {
	Sha256 hash;
	hash.Add(unit.source);
	for (auto &header : KernelHeaders()) {
		hash.Add(header.name);
		hash.Add(header.text);
	}
	return Sha256::Hex(hash.Finish());
}

// The predicates of select: what is kept is not negative, as row numbers marked for removal are
const char *const KEEP_I32 =
    "extern \"C\" __device__ void vibe_keep(const void *item, void *keep) { *(bool *)keep = *(const int *)item >= 0; }";
const char *const KEEP_I64 = "extern \"C\" __device__ void vibe_keep(const void *item, void *keep) { *(bool *)keep = "
                             "*(const long long *)item >= 0; }";
const char *const KEEP_NONE =
    "extern \"C\" __device__ void vibe_none(const void *, void *keep) { *(bool *)keep = false; }";

cccl::Op SourceOp(const char *name, const char *code) {
	cccl::Op op {};
	op.type = cccl::STATELESS;
	op.name = name;
	op.code = code;
	op.code_size = std::strlen(code);
	op.code_type = cccl::CODE_CPP;
	op.size = 1;
	op.alignment = 1;
	return op;
}

cccl::OpKind KindOf(const KernelSpec &spec) {
	const std::string algorithm = spec.algorithm, op = spec.op;
	if (algorithm == "binary_search" || algorithm == "merge_sort") {
		return cccl::LESS;
	}
	if (algorithm == "unique_by_key") {
		return cccl::EQUAL_TO;
	}
	return op == "min" ? cccl::MINIMUM : op == "max" ? cccl::MAXIMUM : cccl::PLUS;
}

} // namespace

cccl::Type cccl::TypeOf(const char *name) {
	const std::string type = name;
	return type == "i32" ? INT32 : type == "i64" ? INT64 : type == "u64" ? UINT64 : FLOAT64;
}

KernelKey UnitKey(const KernelUnit &unit, int capability, Libraries &libraries) {
	KernelKey key;
	key.name = unit.name;
	key.source = SourceDigest(unit);
	// The architecture is the capability: a key of the pack must not differ by it
	key.options = "--std=c++17 --fmad=false --device-as-default-execution-space";
	key.capability = capability;
	key.nvrtc = libraries.NvrtcVersion();
	return key;
}

KernelKey SpecKey(const KernelSpec &spec, int capability, Libraries &libraries) {
	KernelKey key;
	key.name = spec.name;
	key.source = std::string(spec.algorithm) + " " + spec.op;
	for (auto *type : spec.types) {
		key.source += std::string(" ") + type;
	}
	if (std::strcmp(spec.algorithm, "three_way_partition") == 0) {
		key.source += " " + Sha256::HexOf(std::string(KEEP_I32) + KEEP_I64 + KEEP_NONE);
	}
	// Of the linker, from the helper
	key.options = "-optimize-unused-variables";
	key.capability = capability;
	key.nvrtc = libraries.NvrtcVersion();
	key.cccl = Libraries::CcclVersion();
	return key;
}

bool CompileUnit(const KernelUnit &unit, int capability, Libraries &libraries, const std::atomic<bool> *cancel,
                 std::string &payload, std::string &error) {
	auto &library = libraries.Nvrtc();
	const Nvrtc nvrtc(library);
	if (!library || !nvrtc.Complete()) {
		error = "libnvrtc: " + (library ? std::string("functions are missing in it") : library.component.detail);
		return false;
	}
	std::vector<const char *> texts, names;
	for (auto &header : KernelHeaders()) {
		texts.push_back(header.text);
		names.push_back(header.name);
	}
	Program program = nullptr;
	const std::string file = std::string(unit.name) + ".cu";
	int status =
	    nvrtc.create(&program, unit.source, file.c_str(), static_cast<int>(names.size()), texts.data(), names.data());
	if (status != 0) {
		error = std::string("NVRTC: ") + nvrtc.error_text(status);
		return false;
	}
	if (cancel && nvrtc.set_flow) {
		nvrtc.set_flow(program, StopWhenCancelled, const_cast<std::atomic<bool> *>(cancel));
	}
	const auto options = UnitOptions(capability);
	std::vector<const char *> option_texts;
	option_texts.reserve(options.size());
	for (auto &option : options) {
		option_texts.push_back(option.c_str());
	}
	status = nvrtc.compile(program, static_cast<int>(option_texts.size()), option_texts.data());
	size_t size = 0;
	if (status != 0) {
		error = std::string("NVRTC: ") + nvrtc.error_text(status);
		if (nvrtc.log_size(program, &size) == 0 && size > 1) {
			std::string log(size, 0);
			nvrtc.log(program, &log[0]);
			error += ": " + log.substr(0, 2000);
		}
	} else {
		status = nvrtc.cubin_size(program, &size);
		if (status == 0) {
			payload.assign(size, 0);
			status = nvrtc.cubin(program, &payload[0]);
		}
		if (status != 0) {
			error = std::string("NVRTC: ") + nvrtc.error_text(status);
		}
	}
	nvrtc.destroy(&program);
	return status == 0;
}

bool CompileSpec(const KernelSpec &spec, int capability, Libraries &libraries, bool precompiled_headers,
                 std::string &payload, std::string &error) {
	using namespace cccl; // NOLINT: its names alone
	auto &library = libraries.Cccl();
	auto &headers = libraries.CcclHeaders();
	if (!library || !headers.found) {
		error = library ? headers.detail : library.component.detail;
		return false;
	}
	const std::string algorithm = spec.algorithm;
	auto function = [&](const char *step) { return library.Symbol(("cccl_device_" + algorithm + "_" + step).c_str()); };
	void *const compile = function("compile");
	auto serialize = reinterpret_cast<int (*)(const void *, void **, size_t *)>(function("serialize"));
	auto cleanup = reinterpret_cast<int (*)(void *)>(function("cleanup"));
	if (!compile || !serialize || !cleanup) {
		error = "libcccl.c.parallel has no " + algorithm;
		return false;
	}

	std::vector<const char *> flags;
	if (precompiled_headers) {
		flags = {"-pch", "--pch-messages=false", "-w"};
	}
	BuildConfig config {flags.data(), flags.size(), nullptr, 0};
	const std::string include = "-I" + headers.path;
	const int major = capability / 10, minor = capability % 10;
	using Text = const char *;
	const Text all = include.c_str(), none = nullptr;
	// CUDA's own headers are not needed, but the path must not be null
	const Text toolkit = all;

	// Iterators need an address that is not null; nothing is read through it
	static char anywhere[64];
	const Type first = TypeOf(spec.types[0]);
	const Type second = spec.types.size() > 1 ? TypeOf(spec.types[1]) : INT32;
	const auto items = Pointer(first, anywhere), values = Pointer(second, anywhere);
	const auto op = Known(KindOf(spec));
	AnyBuild build {};
	int status = -1;
	if (algorithm == "scan") {
		using F = int (*)(void *, Iterator, Iterator, Op, TypeInfo, bool, int, int, int, Text, Text, Text, Text,
		                  BuildConfig *);
		status = reinterpret_cast<F>(compile)(&build, items, items, op, InfoOf(first), false, 0, major, minor, all,
		                                      none, none, toolkit, &config);
	} else if (algorithm == "three_way_partition") {
		using F = int (*)(void *, Iterator, Iterator, Iterator, Iterator, Iterator, Op, Op, int, int, Text, Text, Text,
		                  Text, BuildConfig *);
		const auto keep = SourceOp("vibe_keep", first == INT32 ? KEEP_I32 : KEEP_I64);
		const auto nothing = SourceOp("vibe_none", KEEP_NONE);
		status = reinterpret_cast<F>(compile)(&build, items, items, items, items, Pointer(INT64, anywhere), keep,
		                                      nothing, major, minor, all, none, none, toolkit, &config);
	} else if (algorithm == "reduce") {
		using F = int (*)(void *, Iterator, Iterator, Op, TypeInfo, int, int, int, int, Text, Text, Text, Text,
		                  BuildConfig *);
		constexpr int RUN_TO_RUN = 1;
		status = reinterpret_cast<F>(compile)(&build, items, items, op, InfoOf(first), 0, RUN_TO_RUN, major, minor, all,
		                                      none, none, toolkit, &config);
	} else if (algorithm == "segmented_reduce") {
		using F = int (*)(void *, Iterator, Iterator, Iterator, Iterator, Op, Value, int, int, Text, Text, Text, Text,
		                  BuildConfig *);
		const auto offsets = Pointer(INT32, anywhere);
		status =
		    reinterpret_cast<F>(compile)(&build, items, items, offsets, offsets, op, Value {InfoOf(first), anywhere},
		                                 major, minor, all, none, none, toolkit, &config);
	} else if (algorithm == "binary_search") {
		using F =
		    int (*)(void *, int, Iterator, Iterator, Iterator, Op, int, int, Text, Text, Text, Text, BuildConfig *);
		const int upper = std::strcmp(spec.op, "upper") == 0;
		status = reinterpret_cast<F>(compile)(&build, upper, items, items, Pointer(INT32, anywhere), op, major, minor,
		                                      all, none, none, toolkit, &config);
	} else if (algorithm == "radix_sort") {
		using F = int (*)(void *, int, Iterator, Iterator, Op, Text, int, int, Text, Text, Text, Text, BuildConfig *);
		constexpr int ASCENDING = 0;
		status = reinterpret_cast<F>(compile)(&build, ASCENDING, items, values, Op {}, "", major, minor, all, none,
		                                      none, toolkit, &config);
	} else if (algorithm == "merge_sort") {
		using F = int (*)(void *, Iterator, Iterator, Iterator, Iterator, Op, int, int, Text, Text, Text, Text,
		                  BuildConfig *);
		status = reinterpret_cast<F>(compile)(&build, items, values, items, values, op, major, minor, all, none, none,
		                                      toolkit, &config);
	} else if (algorithm == "unique_by_key") {
		using F = int (*)(void *, Iterator, Iterator, Iterator, Iterator, Iterator, Op, int, int, Text, Text, Text,
		                  Text, BuildConfig *);
		status = reinterpret_cast<F>(compile)(&build, items, values, items, values, Pointer(INT64, anywhere), op, major,
		                                      minor, all, none, none, toolkit, &config);
	}
	if (status != 0) {
		error = "libcccl.c.parallel could not compile it (status " + std::to_string(status) + ")";
		return false;
	}
	void *bytes = nullptr;
	size_t size = 0;
	status = serialize(&build, &bytes, &size);
	if (status == 0) {
		payload.assign(static_cast<const char *>(bytes), size);
		if (auto release = library.Get<void (*)(void *)>("cccl_serialization_buffer_free")) {
			release(bytes);
		}
	} else {
		error = "libcccl.c.parallel could not serialize it (status " + std::to_string(status) + ")";
	}
	cleanup(&build);
	return status == 0;
}

} // namespace vibespatial
