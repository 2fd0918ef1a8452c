#include "catch.hpp"

#include "geometry/error.hpp"
#include "geometry/geoparquet.hpp"
#include "geometry/json.hpp"

using namespace vibespatial;

static std::vector<GeoParquetColumn> Read(const std::string &text) {
	// A buffer of exactly the text: nothing after it may be looked at
	std::vector<char> exact(text.begin(), text.end());
	return ReadGeoParquet(exact.data(), exact.size());
}

TEST_CASE("GeoParquet: encodings, CRS and coverings", "[geoparquet]") {
	auto columns = Read(R"({"version": "1.1.0", "primary_column": "a", "columns": {
		"a": {"encoding": "WKB", "covering": {"bbox": {"xmin": ["box", "w"], "ymin": ["box", "s"],
			"xmax": ["box", "e"], "ymax": ["box", "n"], "zmin": ["box", "z"]}}},
		"b": {"encoding": "multipolygon", "crs": null},
		"c \"\u00e9\ud83d\ude00\n": {"encoding": "point", "crs": {"id": [1, {"x": 2}]}}}})");
	REQUIRE(columns.size() == 3);
	CHECK(columns[0].name == "a");
	CHECK(columns[0].encoding == "wkb");
	CHECK(columns[0].crs == GeoParquetColumn::Crs::DEFAULT);
	CHECK(columns[0].box_column == "box");
	CHECK(columns[0].box_fields == std::array<std::string, 4> {"w", "s", "e", "n"});
	CHECK(columns[1].encoding == "multipolygon");
	CHECK(columns[1].crs == GeoParquetColumn::Crs::UNKNOWN);
	CHECK(columns[1].box_column.empty());
	CHECK(columns[2].name == "c \"\xC3\xA9\xF0\x9F\x98\x80\n");
	CHECK(columns[2].crs == GeoParquetColumn::Crs::GIVEN);
	CHECK(columns[2].crs_text == R"({"id": [1, {"x": 2}]})");
}

TEST_CASE("GeoParquet: a covering that is not understood is none", "[geoparquet]") {
	for (
	    auto covering :
	    {R"(1)", R"({})", R"({"bbox": []})", R"({"bbox": {}})", R"({"bbox": {"xmin": ["b", "x"]}})",
	     R"({"bbox": {"xmin": ["b", "w"], "ymin": ["b", "s"], "xmax": ["b", "e"], "ymax": ["other", "n"]}})",
	     R"({"bbox": {"xmin": ["b", "w"], "ymin": ["b", "s"], "xmax": ["b", "e"], "ymax": ["b", 1]}})",
	     R"({"bbox": {"xmin": ["b"], "ymin": ["b"], "xmax": ["b"], "ymax": ["b"]}})",
	     R"({"bbox": {"xmin": ["a", "b", "w"], "ymin": ["a", "b", "s"], "xmax": ["a", "b", "e"], "ymax": ["a", "b", "n"]}})"}) {
		auto columns = Read(std::string(R"({"columns": {"g": {"encoding": "WKB", "covering": )") + covering + "}}}");
		REQUIRE(columns.size() == 1);
		CHECK(columns[0].box_column.empty());
	}
	CHECK(Read(R"({"columns": {"g": 3}})")[0].encoding.empty());
	CHECK(Read(R"({"columns": {}})").empty());
}

TEST_CASE("GeoParquet: boxes that are named for several columns are those of the primary one", "[geoparquet]") {
	const auto covering = [](const std::string &box) {
		std::string text;
		for (auto side : {"xmin", "ymin", "xmax", "ymax"}) {
			text += (text.empty() ? "\"" : ", \"") + std::string(side) + "\": [\"" + box + "\", \"" + side + "\"]";
		}
		return R"({"encoding": "WKB", "covering": {"bbox": {)" + text + "}}}";
	};
	const auto boxes = [&](const std::string &primary) {
		std::string text;
		for (auto &column :
		     Read("{" + primary + R"("columns": {"a": )" + covering("of b") + R"(, "b": )" + covering("of b") +
		          R"(, "c": )" + covering("of c") + R"(, "d": {"encoding": "WKB"}, "e": {"encoding": "WKB"}}})")) {
			text += "[" + column.box_column + "]";
		}
		return text;
	};
	CHECK(boxes(R"("primary_column": "b", )") == "[][of b][of c][][]");
	CHECK(boxes(R"("primary_column": "c", )") == "[][][of c][][]");
	CHECK(boxes("") == "[][][of c][][]");
}

TEST_CASE("GeoParquet: what are no metadata", "[geoparquet]") {
	for (auto text : {"", "{}", "[]", "3", "{\"columns\": []}", "{\"columns\": {", "{\"columns\": {\"g\"}}"}) {
		CHECK_THROWS_AS(Read(text), GeometryError);
	}
}

TEST_CASE("JSON: strings with all escapes", "[geoparquet]") {
	auto text = [](const std::string &json) {
		JsonTree tree(json.data(), json.size());
		return JsonTree::Text(tree.Root());
	};
	CHECK(text(R"("")").empty());
	CHECK(text(R"("\"\\\/\b\f\n\r\tx")") == "\"\\/\b\f\n\r\tx");
	CHECK(text(R"("\u0041\u00df\u20AC\ud834\udd1e")") == "A\xC3\x9F\xE2\x82\xAC\xF0\x9D\x84\x9E");
	// Halves of a character, alone or in the wrong order
	CHECK(text(R"("\ud834")") == "\xEF\xBF\xBD");
	CHECK(text(R"("\udd1e\ud834x")") == "\xEF\xBF\xBD\xEF\xBF\xBDx");
	CHECK(text(R"("\ud834\u0041")") == "\xEF\xBF\xBD"
	                                   "A");
}
