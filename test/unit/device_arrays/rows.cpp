// Results as Arrow arrays on the host's machine: every value as it came, and memory that goes when the last owner does
#include "host_machine.hpp"
#include "wkb_bytes.hpp"

#include "catch.hpp"

#include "engine/device_arrays/c_interface.hpp"
#include "engine/device_arrays/rows.hpp"
#include "engine/gpu/machine/shared_memory.hpp"

#include <cstring>
#include <map>
#include <numeric>
#include <sys/wait.h>
#include <unistd.h>

using namespace vibespatial;
using namespace wkb_test;
using Catch::Matchers::Contains;

namespace {

//! An array with its memory, as a producer has it
struct Source {
	//! By their consumers
	static int released;
	ArrowArray array {};
	std::vector<std::vector<uint8_t>> memory;
	std::vector<const void *> buffers;
	std::vector<std::unique_ptr<Source>> children;
	std::vector<ArrowArray *> child_arrays;

	explicit Source(int64_t length) {
		array.length = length;
		array.null_count = -1;
		array.release = [](ArrowArray *gone) {
			gone->release = nullptr;
			released++;
		};
	}
	Source &Buffer(std::vector<uint8_t> bytes) {
		memory.push_back(std::move(bytes));
		return *this;
	}
	template <class T>
	Source &Values(const std::vector<T> &values) {
		std::vector<uint8_t> bytes(values.size() * sizeof(T));
		std::memcpy(bytes.data(), values.data(), bytes.size());
		return Buffer(std::move(bytes));
	}
	Source &Child(std::unique_ptr<Source> child) {
		children.push_back(std::move(child));
		return *this;
	}
	//! Rows [offset, offset + length) of it
	ArrowArray &Slice(int64_t offset, int64_t length) {
		array.offset = offset;
		array.length = length;
		return Array();
	}
	ArrowArray &Array() {
		buffers.clear();
		child_arrays.clear();
		for (auto &bytes : memory) {
			buffers.push_back(bytes.empty() ? nullptr : bytes.data());
		}
		for (auto &child : children) {
			child_arrays.push_back(&child->Array());
		}
		array.n_buffers = static_cast<int64_t>(buffers.size());
		array.buffers = buffers.data();
		array.n_children = static_cast<int64_t>(child_arrays.size());
		array.children = child_arrays.data();
		return array;
	}
};

int Source::released = 0;

//! A schema with its memory
struct Schema {
	ArrowSchema schema {};
	std::string format;
	std::string name;
	std::string metadata;
	std::vector<std::unique_ptr<Schema>> children;
	std::vector<ArrowSchema *> child_schemas;

	Schema(std::string format_p, std::string name_p) : format(std::move(format_p)), name(std::move(name_p)) {
	}
	static std::unique_ptr<Schema> Of(std::string format, std::string name) {
		return std::make_unique<Schema>(std::move(format), std::move(name));
	}
	const ArrowSchema &Get() {
		schema.format = format.c_str();
		schema.name = name.c_str();
		schema.metadata = metadata.empty() ? nullptr : metadata.data();
		schema.flags = ARROW_FLAG_NULLABLE;
		child_schemas.clear();
		for (auto &child : children) {
			child->Get();
			child_schemas.push_back(&child->schema);
		}
		schema.n_children = static_cast<int64_t>(child_schemas.size());
		schema.children = child_schemas.data();
		return schema;
	}
};

std::string MetadataOf(const std::map<std::string, std::string> &entries) {
	ArrowLayout layout;
	for (auto &entry : entries) {
		layout.metadata.emplace_back(entry);
	}
	return layout.MetadataBytes();
}

std::unique_ptr<Schema> Column(std::string format) {
	auto root = Schema::Of("+s", "");
	root->children.push_back(Schema::Of(std::move(format), "c"));
	return root;
}

std::unique_ptr<Schema> WkbColumn(const char *format = "z") {
	auto root = Column(format);
	root->children[0]->metadata =
	    MetadataOf({{"ARROW:extension:name", "geoarrow.wkb"}, {"ARROW:extension:metadata", "{\"crs\":\"x\"}"}});
	return root;
}

std::unique_ptr<Source> Rows(int64_t length) {
	auto root = std::make_unique<Source>(length);
	root->Buffer({});
	root->array.null_count = 0;
	return root;
}

//! A batch of one column
std::unique_ptr<Source> Batch(std::unique_ptr<Source> column) {
	auto root = Rows(column->array.length);
	root->Child(std::move(column));
	return root;
}

std::unique_ptr<Source> Texts(const std::vector<std::string> &texts, std::vector<uint8_t> validity) {
	auto column = std::make_unique<Source>(static_cast<int64_t>(texts.size()));
	std::vector<int32_t> offsets {0};
	std::string bytes;
	for (auto &text : texts) {
		bytes += text;
		offsets.push_back(static_cast<int32_t>(bytes.size()));
	}
	column->Buffer(std::move(validity)).Values(offsets).Buffer(std::vector<uint8_t>(bytes.begin(), bytes.end()));
	return column;
}

struct Fixture {
	MachineShares shares;

	uint64_t Bytes() const {
		std::vector<GpuMemoryRow> rows;
		shares.Report(rows);
		return rows[0].bytes;
	}
	std::shared_ptr<const DeviceResult> Send(const DeviceRows &rows) {
		return rows.Send(*shares.New(std::make_unique<host_cuda::Machine>()));
	}
};

template <class T>
std::vector<T> Read(const DeviceColumn &column, size_t buffer, size_t count) {
	const auto *at = static_cast<const T *>(column.buffers[buffer].get());
	return std::vector<T>(at, at + count);
}

} // namespace

TEST_CASE("Batches become one array: numbers, bits and validity of slices", "[device_arrays]") {
	Fixture fixture;
	auto schema = Schema::Of("+s", "");
	schema->children.push_back(Schema::Of("i", "number"));
	schema->children.push_back(Schema::Of("b", "flag"));
	DeviceRows rows(schema->Get(), true);
	const auto batch = [](int32_t first) {
		auto root = Rows(20);
		auto numbers = std::make_unique<Source>(20), flags = std::make_unique<Source>(20);
		std::vector<int32_t> values(20);
		std::iota(values.begin(), values.end(), first);
		numbers->Buffer({0xfe, 0xff, 0x07}).Values(values); // rows 0 and 19 are NULL
		flags->Buffer({}).Buffer({0x55, 0x55, 0x05});
		root->Child(std::move(numbers)).Child(std::move(flags));
		return root;
	};
	auto first = batch(100), second = batch(200), empty = batch(0);
	rows.Add(first->Slice(0, 11));
	rows.Add(empty->Slice(5, 0));
	// A slice of a struct is one of its children
	rows.Add(second->Slice(3, 17));
	const auto result = fixture.Send(rows);
	REQUIRE(result->device.type == DeviceName::CPU);
	REQUIRE(result->rows.length == 28);
	REQUIRE(result->rows.buffers.size() == 1);
	REQUIRE(!result->rows.buffers[0]);
	const auto &numbers = result->rows.children[0], &flags = result->rows.children[1];
	REQUIRE(numbers.null_count == 2);
	const auto valid = Read<uint8_t>(numbers, 0, 4);
	const auto bits = Read<uint8_t>(flags, 1, 4);
	const auto values = Read<int32_t>(numbers, 1, 28);
	for (size_t i = 0; i < 28; i++) {
		const auto row = i < 11 ? i : i - 11 + 3;
		REQUIRE(values[i] == int32_t(i < 11 ? 100 + row : 200 + row));
		REQUIRE((valid[i / 8] >> i % 8 & 1) == (row != 0 && row != 19));
		REQUIRE((bits[i / 8] >> i % 8 & 1) == (row % 2 == 0));
	}
	REQUIRE(valid[3] >> 4 == 0);
	// Nothing is NULL: no buffer
	REQUIRE(flags.null_count == 0);
	REQUIRE(!flags.buffers[0]);
}

TEST_CASE("Texts and lists of slices begin at zero again", "[device_arrays]") {
	Fixture fixture;
	auto schema = Schema::Of("+s", "");
	schema->children.push_back(Schema::Of("u", "text"));
	schema->children.push_back(Schema::Of("+l", "list"));
	schema->children[1]->children.push_back(Schema::Of("+w:2", "item"));
	schema->children[1]->children[0]->children.push_back(Schema::Of("s", "number"));
	DeviceRows rows(schema->Get(), true);
	const auto batch = [] {
		auto root = Rows(4);
		auto numbers = std::make_unique<Source>(12);
		numbers->Buffer({}).Values(std::vector<int16_t> {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
		auto pairs = std::make_unique<Source>(5);
		// The child has an offset of its own
		numbers->array.offset = 2;
		numbers->array.length = 10;
		pairs->Buffer({}).Child(std::move(numbers));
		auto lists = std::make_unique<Source>(4);
		lists->Buffer({}).Values(std::vector<int32_t> {0, 1, 1, 3, 5}).Child(std::move(pairs));
		root->Child(Texts({"a", "bcd", "", "efg"}, {})).Child(std::move(lists));
		return root;
	};
	auto first = batch(), second = batch();
	rows.Add(first->Array());
	rows.Add(second->Slice(1, 2));
	const auto result = fixture.Send(rows);
	const auto &texts = result->rows.children[0], &lists = result->rows.children[1];
	REQUIRE(Read<int32_t>(texts, 1, 7) == std::vector<int32_t> {0, 1, 4, 4, 7, 10, 10});
	const auto bytes = Read<char>(texts, 2, 10);
	REQUIRE(std::string(bytes.begin(), bytes.end()) == "abcdefgbcd");
	REQUIRE(Read<int32_t>(lists, 1, 7) == std::vector<int32_t> {0, 1, 1, 3, 5, 5, 7});
	REQUIRE(lists.children[0].length == 7);
	REQUIRE(lists.children[0].children[0].length == 14);
	REQUIRE(Read<int16_t>(lists.children[0].children[0], 1, 14) ==
	        std::vector<int16_t> {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 4, 5, 6, 7});
}

TEST_CASE("WKB becomes native GeoArrow where it is of one kind", "[device_arrays]") {
	Fixture fixture;
	const auto polygon = Wkb()
	                         .Header(GeometryType::POLYGON)
	                         .Count(2)
	                         .Count(4)
	                         .Doubles({0, 0, 4, 0, 0, 4, 0, 0})
	                         .Count(4)
	                         .Doubles({1, 1, 2, 1, 1, 2, 1, 1})
	                         .bytes;
	SECTION("Polygons beside multipolygons, NULL and EMPTY") {
		DeviceRows rows(WkbColumn()->Get(), true);
		const auto multi = Wkb().Header(GeometryType::MULTIPOLYGON).Count(1).Append(polygon).bytes;
		auto first = Batch(Texts({polygon, "", Empty(GeometryType::POLYGON, 0)}, {0x05}));
		auto second = Batch(Texts({multi}, {}));
		rows.Add(first->Array());
		rows.Add(second->Array());
		const auto result = fixture.Send(rows);
		const auto &column = result->layout.children[0];
		REQUIRE(column.metadata[0].second == "{\"crs\":\"x\"}");
		REQUIRE(column.metadata[1].second == "geoarrow.multipolygon");
		REQUIRE(column.children[0].name == "polygons");
		REQUIRE(column.children[0].children[0].name == "rings");
		REQUIRE(column.children[0].children[0].children[0].name == "vertices");
		const auto &data = result->rows.children[0];
		REQUIRE(data.null_count == 1);
		REQUIRE(Read<int32_t>(data, 1, 5) == std::vector<int32_t> {0, 1, 1, 1, 2});
		REQUIRE(Read<int32_t>(data.children[0], 1, 3) == std::vector<int32_t> {0, 2, 4});
		const auto &rings = data.children[0].children[0];
		REQUIRE(Read<int32_t>(rings, 1, 5) == std::vector<int32_t> {0, 4, 8, 12, 16});
		const auto &vertices = rings.children[0];
		REQUIRE(vertices.length == 16);
		const std::vector<double> x {0, 4, 0, 0, 1, 2, 1, 1, 0, 4, 0, 0, 1, 2, 1, 1};
		REQUIRE(Read<double>(vertices.children[0], 1, 16) == x);
	}
	SECTION("What is no geometry of one kind") {
		DeviceRows rows(WkbColumn()->Get(), true);
		auto batch = Batch(Texts({polygon, Wkb().Header(GeometryType::POINT).Doubles({1, 2}).bytes}, {}));
		rows.Add(batch->Array());
		REQUIRE_THROWS_WITH(fixture.Send(rows),
		                    Contains("\"c\"") && Contains("POINT, POLYGON") && Contains("encoding='wkb'"));
		REQUIRE(fixture.Bytes() == 0);
	}
	SECTION("WKB that ends too early") {
		DeviceRows rows(WkbColumn()->Get(), true);
		auto batch = Batch(Texts({polygon.substr(0, 40)}, {}));
		rows.Add(batch->Array());
		REQUIRE_THROWS_AS(fixture.Send(rows), DeviceArrayError);
	}
	SECTION("WKB where it is asked for, and where no geometry says its kind") {
		for (const bool is_native : {false, true}) {
			DeviceRows rows(WkbColumn()->Get(), is_native);
			auto batch = Batch(Texts({is_native ? std::string() : polygon}, {uint8_t(is_native ? 0 : 1)}));
			rows.Add(batch->Array());
			const auto result = fixture.Send(rows);
			REQUIRE(result->layout.children[0].IsWkb());
			REQUIRE(result->rows.children[0].null_count == (is_native ? 1 : 0));
		}
	}
	SECTION("No rows at all") {
		DeviceRows rows(WkbColumn()->Get(), true);
		const auto result = fixture.Send(rows);
		REQUIRE(result->rows.children[0].length == 0);
		REQUIRE(Read<int32_t>(result->rows.children[0], 1, 1) == std::vector<int32_t> {0});
	}
}

TEST_CASE("Columns without a place on a device are refused by name", "[device_arrays]") {
	for (const char *format : {"vu", "+ud:0,1", "+r", "+vl", "?"}) {
		INFO(format);
		REQUIRE_THROWS_WITH(DeviceRows(Column(format)->Get(), true), Contains("\"c\"") && Contains(format));
	}
	auto root = Column("c");
	auto words = Schema::Of("u", "");
	words->Get();
	root->Get();
	root->children[0]->schema.dictionary = &words->schema;
	REQUIRE_THROWS_WITH(DeviceRows(root->schema, true), Contains("cast it to VARCHAR"));
	REQUIRE_THROWS_AS(DeviceRows(Schema::Of("i", "")->Get(), true), DeviceArrayError);
}

TEST_CASE("Memory goes with its last owner, once", "[device_arrays]") {
	Fixture fixture;
	auto schema = Schema::Of("+s", "");
	schema->children.push_back(Schema::Of("i", "a"));
	schema->children.push_back(Schema::Of("i", "b"));
	auto rows = std::make_unique<DeviceRows>(schema->Get(), true);
	auto batch = Rows(2);
	for (int i = 0; i < 2; i++) {
		auto numbers = std::make_unique<Source>(2);
		numbers->Buffer({}).Values(std::vector<int32_t> {1, 2});
		batch->Child(std::move(numbers));
	}
	rows->Add(batch->Array());
	auto result = fixture.Send(*rows);
	REQUIRE(!batch->array.release);
	const auto before = Source::released;
	rows.reset();
	REQUIRE(Source::released == before + 1);
	REQUIRE(fixture.Bytes() == 2 * 64);
	ArrowDeviceArray once, again;
	ArrowSchema types;
	result->Export(once);
	result->Export(again);
	result->Export(types);
	REQUIRE(once.device_type == 1);
	REQUIRE(once.device_id == -1);
	REQUIRE(!once.sync_event);
	result.reset();
	REQUIRE(fixture.Bytes() == 2 * 64);
	once.array.release(&once.array);
	REQUIRE(!once.array.release);
	REQUIRE(fixture.Bytes() == 2 * 64);
	// A child that was moved away outlives its parent
	ArrowArray child = *again.array.children[1];
	again.array.children[1]->release = nullptr;
	const auto process = fork();
	if (process == 0) {
		// A child process gives nothing back
		again.array.release(&again.array);
		_exit(fixture.Bytes() == 2 * 64 ? 0 : 1);
	}
	int status = 0;
	waitpid(process, &status, 0);
	REQUIRE(status == 0);
	again.array.release(&again.array);
	REQUIRE(fixture.Bytes() == 64);
	REQUIRE(static_cast<const int32_t *>(child.buffers[1])[1] == 2);
	child.release(&child);
	REQUIRE(fixture.Bytes() == 0);
	REQUIRE(std::string(types.children[1]->name) == "b");
	types.release(&types);
	REQUIRE(!types.release);
}

TEST_CASE("The C interface says what is wrong instead of throwing", "[device_arrays]") {
	const auto &functions = DeviceArraysInterface();
	VibespatialFailure failure;
	REQUIRE(functions.begin(&Column("+r")->Get(), true, &failure) == nullptr);
	REQUIRE(failure.kind == VibespatialFailure::ROWS);
	REQUIRE_THAT(failure.text, Contains("\"c\""));
	// Longer than its place
	auto long_name = Column("+r");
	long_name->children[0]->name = std::string(5000, 'n');
	REQUIRE(functions.begin(&long_name->Get(), true, &failure) == nullptr);
	REQUIRE(std::strlen(failure.text) == sizeof(failure.text) - 1);
	auto *rows = functions.begin(&Column("i")->Get(), true, &failure);
	REQUIRE(rows);
	REQUIRE(failure.kind == VibespatialFailure::NOTHING);
	functions.drop_rows(rows);
}
