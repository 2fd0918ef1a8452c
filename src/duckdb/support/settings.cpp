#include "duckdb/support/settings.hpp"

#include "duckdb/support/compat.hpp"
#include "duckdb/main/client_context_state.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/storage/object_cache.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "engine/gpu/runtime/runtime.hpp"
#include "engine/dispatch/kernel_registry.hpp"
#include "engine/dispatch/operation.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>

namespace duckdb {

using vibespatial::ExecutionMode;
using vibespatial::GpuEngine;
using vibespatial::GpuOptions;
using vibespatial::GpuRuntime;

namespace {

//! Whether a connection of this process is, or was, in mode gpu
std::atomic<bool> was_in_mode_gpu {false};

//! The environment variable of a setting: VIBESPATIAL_CACHE_DIR for vibe_cache_dir
string VariableOf(const string &setting) {
	return "VIBESPATIAL_" + StringUtil::Upper(setting.substr(string("vibe_").size()));
}

//! Returns the text in lower case; throws unless it is one of the choices. `source` is what the user set: the setting or the
//! environment variable.
string CheckChoice(const string &source, const string &what, const Value &value, const vector<string> &choices) {
	auto text = value.IsNull() ? string() : StringValue::Get(value);
	auto choice = StringUtil::Lower(text);
	if (std::find(choices.begin(), choices.end(), choice) != choices.end()) {
		return choice;
	}
	throw InvalidInputException("%s = '%s': %s must be one of '%s'", source, text, what,
	                            StringUtil::Join(choices, "', '"));
}

//! Parses a size such as '8GB'; empty and '0' are 0
uint64_t CheckBytes(const string &source, const Value &value) {
	auto text = value.IsNull() ? string() : StringValue::Get(value);
	StringUtil::Trim(text);
	if (text.empty() || text == "0") {
		return 0;
	}
	idx_t bytes = NumericLimits<idx_t>::Maximum();
	try {
		bytes = ParseBytes(text);
	} catch (const std::exception &) {
		// reported below
	}
	if (bytes >= idx_t(NumericLimits<int64_t>::Maximum())) {
		throw InvalidInputException("%s = '%s': expected a size such as '8GB' or '512MiB'", source, text);
	}
	return bytes;
}

uint32_t CheckCount(const string &source, const Value &value, const char *what, uint32_t least, uint32_t most) {
	auto count = value.IsNull() ? int64_t(-1) : BigIntValue::Get(value);
	if (count < int64_t(least) || count > int64_t(most)) {
		throw InvalidInputException("%s = %s: %s must be between %d and %d", source, value.ToString(), what, least,
		                            most);
	}
	return uint32_t(count);
}

//===----------------------------------------------------------------------===//
// The settings. Check() throws for an invalid value, normalizes it and stores it in the options.
//===----------------------------------------------------------------------===//
struct ExecutionModeSetting {
	static constexpr const char *NAME = "vibe_execution_mode";
	static constexpr const char *DESCRIPTION = "Which engine computes: auto, cpu or gpu";
	static constexpr SetScope SCOPE = SetScope::SESSION;
	static Value Default() {
		return Value("auto");
	}
	static void Check(const string &source, Value &value, GpuOptions &) {
		value = Value(CheckChoice(source, "the execution mode", value, {"auto", "cpu", "gpu"}));
		if (StringValue::Get(value) == "gpu") {
			was_in_mode_gpu = true;
		}
	}
};

struct PrecompileSetting {
	static constexpr const char *NAME = "vibe_precompile";
	static constexpr const char *DESCRIPTION =
	    "Which GPU kernels are prepared before a query needs them: auto (those of joins), all or off. "
	    "VIBESPATIAL_PRECOMPILE decides what LOAD prepares. Applies to the whole process";
	static constexpr SetScope SCOPE = SetScope::GLOBAL;
	static Value Default() {
		return Value("auto");
	}
	static void Check(const string &source, Value &value, GpuOptions &) {
		value = Value(CheckChoice(source, "what is compiled ahead", value, {"auto", "all", "off"}));
	}
};

struct KernelTimeoutSetting {
	static constexpr const char *NAME = "vibe_kernel_timeout";
	static constexpr const char *DESCRIPTION = "Seconds that a query in mode auto waits for its GPU kernels before the "
	                                           "CPU does the work. Applies to the whole "
	                                           "process";
	static constexpr SetScope SCOPE = SetScope::GLOBAL;
	static Value Default() {
		return Value::DOUBLE(2);
	}
	static void Check(const string &source, Value &value, GpuOptions &options) {
		if (value.IsNull() || !(DoubleValue::Get(value) >= 0) || DoubleValue::Get(value) > 86400) {
			throw InvalidInputException("%s = %s: expected seconds between 0 and 86400", source, value.ToString());
		}
		options.kernel_timeout_seconds = DoubleValue::Get(value);
	}
};

struct KernelSourceSetting {
	static constexpr const char *NAME = "vibe_kernel_source";
	static constexpr const char *DESCRIPTION = "Where GPU kernels come from: auto, pack (only the release pack) or jit "
	                                           "(always compiled). Applies to the whole "
	                                           "process";
	static constexpr SetScope SCOPE = SetScope::GLOBAL;
	static Value Default() {
		return Value("auto");
	}
	static void Check(const string &source, Value &value, GpuOptions &options) {
		auto choice = CheckChoice(source, "the source of kernels", value, {"auto", "pack", "jit"});
		options.kernel_source = choice == "pack"  ? vibespatial::KernelSource::PACK
		                        : choice == "jit" ? vibespatial::KernelSource::JIT
		                                          : vibespatial::KernelSource::AUTO;
		value = Value(choice);
	}
};

struct MemoryTierSetting {
	static constexpr const char *NAME = "vibe_memory_tier";
	static constexpr const char *DESCRIPTION = "How GPU memory is allocated: pool, safe (frees caches and retries "
	                                           "before it fails) or managed (may page to the "
	                                           "host). Applies to the whole process";
	static constexpr SetScope SCOPE = SetScope::GLOBAL;
	static Value Default() {
		return Value("safe");
	}
	static void Check(const string &source, Value &value, GpuOptions &options) {
		auto choice = CheckChoice(source, "the memory tier", value, {"pool", "safe", "managed"});
		options.memory_tier = choice == "pool"      ? vibespatial::MemoryTier::POOL
		                      : choice == "managed" ? vibespatial::MemoryTier::MANAGED
		                                            : vibespatial::MemoryTier::SAFE;
		value = Value(choice);
	}
};

struct GpuDeviceSetting {
	static constexpr const char *NAME = "vibe_gpu_device";
	static constexpr const char *DESCRIPTION =
	    "The number of the GPU to use. Applies to the whole process and cannot change once the GPU engine is open";
	static constexpr SetScope SCOPE = SetScope::GLOBAL;
	static Value Default() {
		return Value::BIGINT(0);
	}
	static void Check(const string &source, Value &value, GpuOptions &options) {
		auto device = int(CheckCount(source, value, "the number of a GPU", 0, 1023));
		auto phase = GpuRuntime::Get().GetPhase();
		bool is_open = phase == GpuRuntime::Phase::OPENING || phase == GpuRuntime::Phase::OPEN;
		if (source == NAME && device != options.device && is_open) {
			throw InvalidInputException("%s = %d: the GPU engine of this process is already open on device %d; set the "
			                            "environment variable %s before LOAD to choose another one",
			                            source, device, options.device, VariableOf(NAME));
		}
		options.device = device;
	}
};

struct Fp32FilterSetting {
	static constexpr const char *NAME = "vibe_gpu_fp32";
	static constexpr const char *DESCRIPTION =
	    "Whether the GPU looks points up with single precision first, and with double precision where that does not "
	    "decide: auto (on GPUs that are slow in double precision), on or off. Results are the same. Applies to the "
	    "whole "
	    "process and cannot change once the GPU engine is open";
	static constexpr SetScope SCOPE = SetScope::GLOBAL;
	static Value Default() {
		return Value("auto");
	}
	static void Check(const string &source, Value &value, GpuOptions &options) {
		auto choice = CheckChoice(source, "the use of single precision", value, {"auto", "on", "off"});
		auto filter = choice == "on"    ? vibespatial::Fp32Filter::ON
		              : choice == "off" ? vibespatial::Fp32Filter::OFF
		                                : vibespatial::Fp32Filter::AUTO;
		auto phase = GpuRuntime::Get().GetPhase();
		bool is_open = phase == GpuRuntime::Phase::OPENING || phase == GpuRuntime::Phase::OPEN;
		if (source == NAME && filter != options.fp32_filter && is_open) {
			throw InvalidInputException("%s = '%s': the GPU engine of this process is already open; set the "
			                            "environment variable %s before LOAD",
			                            source, choice, VariableOf(NAME));
		}
		options.fp32_filter = filter;
		value = Value(choice);
	}
};

struct CacheSetting {
	static constexpr const char *NAME = "vibe_cache";
	static constexpr const char *DESCRIPTION = "GPU memory for build sides of joins that are kept for later queries, "
	                                           "such as 2GB; 0 keeps none. Applies to the "
	                                           "whole process";
	static constexpr SetScope SCOPE = SetScope::GLOBAL;
	static Value Default() {
		return Value("2GB");
	}
	static void Check(const string &source, Value &value, GpuOptions &options) {
		options.resident_limit = CheckBytes(source, value);
		value = value.IsNull() ? Value("0") : value;
	}
};

struct GpuMemoryLimitSetting {
	static constexpr const char *NAME = "vibe_gpu_memory_limit";
	static constexpr const char *DESCRIPTION =
	    "The most GPU memory to use, such as 8GB; empty or 0 means nine tenths of what is free. Applies to the whole "
	    "process";
	static constexpr SetScope SCOPE = SetScope::GLOBAL;
	static Value Default() {
		return Value("");
	}
	static void Check(const string &source, Value &value, GpuOptions &options) {
		options.memory_limit = CheckBytes(source, value);
		value = value.IsNull() ? Value("") : value;
	}
};

struct CacheDirSetting {
	static constexpr const char *NAME = "vibe_cache_dir";
	static constexpr const char *DESCRIPTION = "The folder for compiled GPU kernels; empty means vibespatial/kernels "
	                                           "in the user's cache folder. Applies to the "
	                                           "whole process";
	static constexpr SetScope SCOPE = SetScope::GLOBAL;
	static Value Default() {
		return Value("");
	}
	static void Check(const string &source, Value &value, GpuOptions &options) {
		value = value.IsNull() ? Value("") : value;
		auto &path = StringValue::Get(value);
		if (!path.empty() && path[0] != '/') {
			throw InvalidInputException("%s = '%s': expected an absolute path", source, path);
		}
		options.cache_dir = path;
	}
};

struct CacheLimitSetting {
	static constexpr const char *NAME = "vibe_cache_limit";
	static constexpr const char *DESCRIPTION =
	    "The most bytes of compiled GPU kernels to keep on disk, such as 256MiB. Applies to the whole process";
	static constexpr SetScope SCOPE = SetScope::GLOBAL;
	static Value Default() {
		return Value("256MiB");
	}
	static void Check(const string &source, Value &value, GpuOptions &options) {
		auto bytes = CheckBytes(source, value);
		if (bytes == 0) {
			throw InvalidInputException("%s = '%s': expected a size above 0, such as '256MiB'", source,
			                            value.IsNull() ? string() : StringValue::Get(value));
		}
		options.cache_limit = bytes;
	}
};

struct CompileWorkersSetting {
	static constexpr const char *NAME = "vibe_compile_workers";
	static constexpr const char *DESCRIPTION = "How many processes compile GPU kernels at the same time; 0 means as "
	                                           "many as cores and memory allow. Applies to "
	                                           "the whole process";
	static constexpr SetScope SCOPE = SetScope::GLOBAL;
	static Value Default() {
		return Value::BIGINT(0);
	}
	static void Check(const string &source, Value &value, GpuOptions &options) {
		options.compile_workers = CheckCount(source, value, "the number of workers", 0, 1024);
	}
};

struct CompileTimeoutSetting {
	static constexpr const char *NAME = "vibe_compile_timeout";
	static constexpr const char *DESCRIPTION =
	    "Seconds without a result after which a process that compiles GPU kernels is stopped. Applies to the whole "
	    "process";
	static constexpr SetScope SCOPE = SetScope::GLOBAL;
	static Value Default() {
		return Value::BIGINT(180);
	}
	static void Check(const string &source, Value &value, GpuOptions &options) {
		options.compile_timeout_seconds = CheckCount(source, value, "the seconds of a compilation", 1, 86400);
	}
};

//===----------------------------------------------------------------------===//
// SET and LOAD
//===----------------------------------------------------------------------===//
//! Applies a setting after its value has changed
template <class SETTING>
void Apply(ClientContext &, const Value &, const GpuOptions &options) {
	GpuRuntime::Get().SetOptions(options);
}

//! The value that RESET restores
template <class SETTING>
string DefaultText() {
	auto environment = std::getenv(VariableOf(SETTING::NAME).c_str());
	return environment && *environment ? string(environment) : StringValue::Get(SETTING::Default());
}

template <>
void Apply<CacheDirSetting>(ClientContext &context, const Value &, const GpuOptions &options) {
	// Who started the process chose the default
	auto &path = options.cache_dir;
	if (path != DefaultText<CacheDirSetting>() && !MayAccess(context, path)) {
		throw PermissionException("%s = '%s': enable_external_access is off, and allowed_directories does not have "
		                          "this folder",
		                          CacheDirSetting::NAME, path);
	}
	GpuRuntime::Get().SetOptions(options);
}

void StartInBackground(ExecutionMode mode, Precompile precompile, const string &requested_by) {
	if (mode == ExecutionMode::CPU || precompile == Precompile::OFF || !GpuRuntime::DeviceIsPossible()) {
		return;
	}
	auto names = AllKernels();
	if (precompile == Precompile::AUTO) {
		// In the order of first use
		names = vibespatial::KernelNeeds(vibespatial::KernelSet::BOX_INDEX);
		for (auto &name : vibespatial::KernelNeeds(vibespatial::KernelSet::SPATIAL_JOIN)) {
			if (std::find(names.begin(), names.end(), name) == names.end()) {
				names.push_back(name);
			}
		}
	}
	if (mode == ExecutionMode::GPU) {
		GpuRuntime::Get().StartInBackground(names, requested_by);
	} else {
		GpuRuntime::Get().StartWhenQuiet(names, requested_by);
	}
}

ExecutionMode ParseMode(const Value &value) {
	auto &text = StringValue::Get(value);
	return text == "cpu" ? ExecutionMode::CPU : text == "gpu" ? ExecutionMode::GPU : ExecutionMode::AUTO;
}

Precompile ParsePrecompile(const Value &value) {
	auto &text = StringValue::Get(value);
	return text == "all" ? Precompile::ALL : text == "off" ? Precompile::OFF : Precompile::AUTO;
}

template <>
void Apply<ExecutionModeSetting>(ClientContext &context, const Value &value, const GpuOptions &) {
	auto mode = ParseMode(value);
	if (mode == ExecutionMode::GPU) {
		string why_not;
		if (!WaitForGpu(context, GPU_PATIENCE_SECONDS, why_not)) {
			throw InvalidInputException("vibe_execution_mode = 'gpu': there is no GPU to use: %s. FROM vibe_gpu_info() "
			                            "lists everything that was searched; 'auto' and 'cpu' work without a GPU",
			                            why_not);
		}
	}
	string unused;
	if (MayOpenGpu(context, unused)) {
		StartInBackground(mode, GetPrecompile(context), "SET vibe_execution_mode");
	}
}

template <>
void Apply<PrecompileSetting>(ClientContext &context, const Value &value, const GpuOptions &) {
	string unused;
	if (MayOpenGpu(context, unused)) {
		StartInBackground(GetExecutionMode(context), ParsePrecompile(value), "SET vibe_precompile");
	}
}

template <class SETTING>
void Set(ClientContext &context, SetScope scope, Value &value) {
	if (SETTING::SCOPE == SetScope::GLOBAL && scope == SetScope::SESSION) {
		throw InvalidInputException("%s applies to the whole process: use SET GLOBAL %s", SETTING::NAME, SETTING::NAME);
	}
	auto options = GpuRuntime::Get().Options();
	SETTING::Check(SETTING::NAME, value, options);
	Apply<SETTING>(context, value, options);
}

//! Registers a setting and stores its initial value in the options. The options belong to the process: a database that is not
//! the first one changes them only if it was opened with an explicit value.
template <class SETTING>
void Register(DBConfig &config, GpuOptions &options, bool is_first) {
	GpuOptions unused = options;
	auto value = SettingDefault(SETTING::NAME, SETTING::Default(),
	                            [&](const string &source, Value &given) { SETTING::Check(source, given, unused); });
	config.AddExtensionOption(SETTING::NAME, SETTING::DESCRIPTION, value.type(), value, Set<SETTING>, SETTING::SCOPE);
	// The database may have been opened with another value
	Value given;
	config.TryGetCurrentSetting(SETTING::NAME, given);
	given = given.DefaultCastAs(value.type());
	if (is_first || !Value::NotDistinctFrom(given, value)) {
		SETTING::Check(SETTING::NAME, given, options);
		config.SetOptionByName(SETTING::NAME, given);
	}
}

void CheckLogQueries(const string &source, Value &value) {
	value = Value(CheckChoice(source, "whose texts are shown", value, {"own", "all"}));
}

void SetLogQueries(ClientContext &, SetScope scope, Value &value) {
	if (scope == SetScope::SESSION) {
		throw InvalidInputException("vibe_log_queries applies to the whole database: use SET GLOBAL vibe_log_queries");
	}
	CheckLogQueries("vibe_log_queries", value);
}

//! A setting of a session that takes every value of its type
void AddOption(DBConfig &config, const char *name, const string &description, Value value) {
	value = SettingDefault(name, std::move(value));
	config.AddExtensionOption(name, description, value.type(), value);
}

//! Numbers that are never used twice in a process
uint64_t NextNumber() {
	static std::atomic<uint64_t> last {0};
	return ++last;
}

uint64_t NextQuery() {
	static std::atomic<uint64_t> last {0};
	return ++last;
}

class ConnectionNumber : public ClientContextState {
public:
	void QueryBegin(ClientContext &) override {
		query = NextQuery();
	}
	const uint64_t number = NextNumber();
	//! Made in the middle of the connection's first query
	std::atomic<uint64_t> query {NextQuery()};
};

class DatabaseNumber : public ObjectCacheEntry {
public:
	static string ObjectType() {
		return "vibespatial_database";
	}
	string GetObjectType() override {
		return ObjectType();
	}
	optional_idx GetEstimatedCacheMemory() const override {
		return optional_idx();
	}
	const uint64_t number = NextNumber();
};

constexpr const char *STRICT_SETTING = "vibe_gpu_strict";

bool IsTrue(ClientContext &context, const char *name) {
	Value value;
	return context.TryGetCurrentSetting(name, value) && !value.IsNull() && BooleanValue::Get(value);
}

template <class GET>
auto Setting(ClientContext &context, const char *name, GET &&get) -> decltype(get(Value())) {
	Value value;
	context.TryGetCurrentSetting(name, value);
	return get(value);
}

} // namespace

Value SettingDefault(const char *name, Value value, const std::function<void(const string &, Value &)> &check) {
	const auto variable = VariableOf(name);
	auto environment = std::getenv(variable.c_str());
	if (!environment || !*environment) {
		return value;
	}
	Value given(environment);
	if (!TryCast(given, value.type())) {
		throw InvalidInputException("%s = '%s': expected %s", variable, environment,
		                            value.type().id() == LogicalTypeId::BOOLEAN ? "true or false" : "a number");
	}
	if (check) {
		check(variable, given);
	}
	return given;
}

void RegisterSettings(ExtensionLoader &loader) {
	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	static std::atomic<bool> loaded {false};
	bool is_first = !loaded;
	auto options = GpuRuntime::Get().Options();
	Register<ExecutionModeSetting>(config, options, is_first);
	Register<PrecompileSetting>(config, options, is_first);
	Register<KernelTimeoutSetting>(config, options, is_first);
	Register<KernelSourceSetting>(config, options, is_first);
	Register<MemoryTierSetting>(config, options, is_first);
	Register<GpuDeviceSetting>(config, options, is_first);
	Register<Fp32FilterSetting>(config, options, is_first);
	Register<GpuMemoryLimitSetting>(config, options, is_first);
	Register<CacheSetting>(config, options, is_first);
	Register<CacheDirSetting>(config, options, is_first);
	Register<CacheLimitSetting>(config, options, is_first);
	Register<CompileWorkersSetting>(config, options, is_first);
	Register<CompileTimeoutSetting>(config, options, is_first);
	GpuRuntime::Get().SetOptions(options);
	loaded = true;

	config.AddExtensionOption(
	    "vibe_log_queries",
	    "Whose query texts vibe_dispatch_log() shows: own (those of the connection) or all (those of the database)",
	    LogicalType::VARCHAR, SettingDefault("vibe_log_queries", Value("own"), CheckLogQueries), SetLogQueries,
	    SetScope::GLOBAL);
	AddOption(config, "vibe_deterministic",
	          "Return the rows of spatial joins and vibe_knn in a stable order, for any number of threads",
	          Value::BOOLEAN(false));
	AddOption(config, "vibe_gpu_min_rows",
	          "Number of rows from which mode auto prefers the GPU; -1 uses the measured threshold of each "
	          "kernel, see vibe_kernels()",
	          Value::BIGINT(-1));
	AddOption(config, STRICT_SETTING,
	          "In mode gpu, what the CPU would do is an error; vibe_dispatch_log() shows what that is",
	          Value::BOOLEAN(false));
	AddOption(config, "vibe_join_partitions",
	          "Split the build side of spatial joins into this many partitions; 0 means as many as memory requires",
	          Value::UBIGINT(0));
	AddOption(config, "vibe_rewrites",
	          "Replace expressions by cheaper equivalents, and skip Parquet row groups; EXPLAIN shows them",
	          Value::BOOLEAN(true));
}

void StartGpu(ExtensionLoader &loader) {
	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	Value mode, precompile, access;
	config.TryGetCurrentSetting(ExecutionModeSetting::NAME, mode);
	config.TryGetCurrentSetting(PrecompileSetting::NAME, precompile);
	config.TryGetCurrentSetting("enable_external_access", access);
	if (!access.IsNull() && !BooleanValue::Get(access)) {
		return; // linked into a program that opened its database so
	}
	StartInBackground(ParseMode(mode), ParsePrecompile(precompile), "LOAD");
}

ExecutionMode GetExecutionMode(ClientContext &context) {
	return Setting(context, ExecutionModeSetting::NAME, ParseMode);
}

Precompile GetPrecompile(ClientContext &context) {
	return Setting(context, PrecompileSetting::NAME, ParsePrecompile);
}

int64_t GetGpuMinRows(ClientContext &context) {
	Value value;
	bool is_set = context.TryGetCurrentSetting("vibe_gpu_min_rows", value) && !value.IsNull();
	return is_set ? BigIntValue::Get(value) : -1;
}

bool GetDeterministic(ClientContext &context) {
	return IsTrue(context, "vibe_deterministic");
}

bool GetRewrites(ClientContext &context) {
	return IsTrue(context, "vibe_rewrites");
}

bool IsModeGpu(ClientContext &context) {
	return was_in_mode_gpu && GetExecutionMode(context) == ExecutionMode::GPU;
}

bool GetGpuStrict(ClientContext &context) {
	return IsModeGpu(context) && IsTrue(context, STRICT_SETTING);
}

double GetKernelTimeout(ClientContext &context) {
	return Setting(context, KernelTimeoutSetting::NAME, [](const Value &value) { return DoubleValue::Get(value); });
}

bool MayAccess(ClientContext &context, const string &path) {
	return DBConfig::GetConfig(context).CanAccessFile(path, FileType::FILE_TYPE_DIR);
}

bool HasExternalAccess(ClientContext &context) {
	Value value;
	return !context.TryGetCurrentSetting("enable_external_access", value) || value.IsNull() || BooleanValue::Get(value);
}

bool MayOpenGpu(ClientContext &context, string &why_not) {
	auto phase = GpuRuntime::Get().GetPhase();
	if (phase == GpuRuntime::Phase::OPENING || phase == GpuRuntime::Phase::OPEN || HasExternalAccess(context)) {
		return true;
	}
	why_not = "the GPU engine is not open, and is not opened while enable_external_access is off";
	return false;
}

vibespatial::QueryText QueryOf(ClientContext &context) {
	vibespatial::QueryText query;
	query.database =
	    ObjectCache::GetObjectCache(context).GetOrCreate<DatabaseNumber>(DatabaseNumber::ObjectType())->number;
	auto connection = context.registered_state->GetOrCreate<ConnectionNumber>("vibespatial_connection");
	query.connection = connection->number;
	query.id = connection->query;
	return query;
}

vibespatial::QueryText LoggedQuery(ClientContext &context) {
	//! Of a text, in the log
	constexpr idx_t MAX_SIZE = 1000;
	auto query = QueryOf(context);
	query.text = context.GetCurrentQuery().substr(0, MAX_SIZE);
	return query;
}

bool MaySee(ClientContext &context, const vibespatial::QueryText &query) {
	auto own = QueryOf(context);
	Value whose;
	context.TryGetCurrentSetting("vibe_log_queries", whose);
	return own.database == query.database &&
	       (own.connection == query.connection || (!whose.IsNull() && StringValue::Get(whose) == "all"));
}

namespace {

constexpr double WAIT_STEP = 0.1;

//! Seconds that are left of a wait that begins now
std::function<double()> TimeLeft(double seconds) {
	return [seconds, begin = std::chrono::steady_clock::now()] {
		return seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
	};
}

} // namespace

GpuEngine *WaitForGpuEngine(ClientContext &context, double seconds, string &why_not) {
	if (!MayOpenGpu(context, why_not)) {
		return nullptr;
	}
	auto poll = CancelPoll(context);
	auto left = TimeLeft(seconds);
	auto &runtime = GpuRuntime::Get();
	GpuEngine *engine = nullptr;
	do {
		poll();
		engine = runtime.Engine(MaxValue(0.0, MinValue(WAIT_STEP, left())), why_not);
	} while (!engine && runtime.GetPhase() == GpuRuntime::Phase::OPENING && left() > 0);
	return engine;
}

GpuEngine *WaitForGpu(ClientContext &context, double seconds, string &why_not) {
	auto poll = CancelPoll(context);
	auto left = TimeLeft(seconds);
	auto engine = WaitForGpuEngine(context, seconds, why_not);
	if (!engine) {
		return nullptr;
	}
	while (true) {
		if (engine->WaitForDevice(MaxValue(0.0, MinValue(WAIT_STEP, left())), why_not)) {
			return engine;
		}
		if (left() <= 0 || !engine->Device().error.empty()) {
			if (why_not.empty()) {
				why_not = StringUtil::Format("the device was not up after %.1f seconds", seconds);
			}
			return nullptr;
		}
		poll();
	}
}

std::vector<std::string> AllKernels() {
	std::vector<std::string> names;
	for (auto &unit : vibespatial::KernelUnits()) {
		names.emplace_back(unit.name);
	}
	for (auto &spec : vibespatial::KernelSpecs()) {
		if (!spec.on_demand) {
			names.emplace_back(spec.name);
		}
	}
	return names;
}

} // namespace duckdb
