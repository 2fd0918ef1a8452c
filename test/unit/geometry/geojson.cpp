#include "catch.hpp"

#include "geometry/error.hpp"
#include "geometry/geojson.hpp"
#include "geometry/number.hpp"
#include "geometry/wkb.hpp"
#include "wkb_bytes.hpp"

#include <charconv>
#include <cmath>
#include <cstring>
#include <random>

using namespace vibespatial;
using namespace wkb_test;
using Catch::Matchers::Contains;

static void Read(const std::string &text, GeometryBatch &batch) {
	// A buffer of exactly the text: nothing after it may be looked at
	std::vector<char> exact(text.begin(), text.end());
	ReadGeoJson(exact.data(), exact.size(), batch);
}

static std::string ToWkb(const std::string &text) {
	GeometryBatch batch;
	Read(text, batch);
	REQUIRE(batch.RowCount() == 1);
	return WriteWkb(batch, 0);
}

static std::string FromWkb(const std::string &bytes) {
	GeometryBatch batch;
	ReadWkb(Data(bytes), bytes.size(), batch);
	const auto text = WriteGeoJson(batch, 0);
	CountedVector<char> memory;
	REQUIRE(WriteGeoJson(Data(bytes), bytes.size(), batch, memory) == text);
	return text;
}

static std::string CollectionText(const std::string &member) {
	return "{\"type\":\"GeometryCollection\",\"geometries\":[" + member + "]}";
}

static std::string PointText(const std::string &coordinates) {
	return "{\"type\":\"Point\",\"coordinates\":[" + coordinates + "]}";
}

static std::string Point(std::initializer_list<double> values) {
	return Wkb().Header(GeometryType::POINT, values.size() == 3 ? VERTEX_Z : VERTEX_XY).Doubles(values).bytes;
}

TEST_CASE("GeoJSON is read into WKB", "[geojson]") {
	REQUIRE(ToWkb(PointText("1,2")) == Point({1, 2}));
	REQUIRE(ToWkb(PointText("1,2,3")) == Point({1, 2, 3}));
	REQUIRE(ToWkb(PointText("1,2,3,4,5")) == Point({1, 2, 3}));
	REQUIRE(ToWkb(PointText("")) == Empty(GeometryType::POINT, 0));
	REQUIRE(ToWkb(R"({"type":"LineString","coordinates":[[1,2],[3,4]]})") ==
	        Wkb().Header(GeometryType::LINESTRING).Count(2).Doubles({1, 2, 3, 4}).bytes);
	REQUIRE(ToWkb(R"({"type":"LineString","coordinates":[[1,2]]})") ==
	        Wkb().Header(GeometryType::LINESTRING).Count(1).Doubles({1, 2}).bytes);
	REQUIRE(ToWkb(R"({"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1]],[]]})") ==
	        Wkb().Header(GeometryType::POLYGON).Count(2).Count(3).Doubles({0, 0, 1, 0, 1, 1}).Count(0).bytes);
	REQUIRE(ToWkb(R"({"type":"MultiPoint","coordinates":[[1,2],[3,4]]})") ==
	        Wkb().Header(GeometryType::MULTIPOINT).Count(2).Append(Point({1, 2})).Append(Point({3, 4})).bytes);
	REQUIRE(ToWkb(R"({"type":"MultiLineString","coordinates":[[],[[1,2],[3,4]]]})") ==
	        Wkb()
	            .Header(GeometryType::MULTILINESTRING)
	            .Count(2)
	            .Append(Empty(GeometryType::LINESTRING, 0))
	            .Header(GeometryType::LINESTRING)
	            .Count(2)
	            .Doubles({1, 2, 3, 4})
	            .bytes);
	REQUIRE(ToWkb(R"({"type":"MultiPolygon","coordinates":[[],[[]]]})") == Wkb()
	                                                                           .Header(GeometryType::MULTIPOLYGON)
	                                                                           .Count(2)
	                                                                           .Append(Empty(GeometryType::POLYGON, 0))
	                                                                           .Header(GeometryType::POLYGON)
	                                                                           .Count(1)
	                                                                           .Count(0)
	                                                                           .bytes);
	for (auto name : {"LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon"}) {
		GeometryBatch batch;
		Read(std::string("{\"type\":\"") + name + "\",\"coordinates\":[]}", batch);
		REQUIRE(batch.IsEmpty(0));
		REQUIRE(batch.vertex_type[0] == VERTEX_XY);
		REQUIRE(WriteGeoJson(batch, 0) == std::string("{\"type\":\"") + name + "\",\"coordinates\":[]}");
	}
}

TEST_CASE("GeoJSON collections nest", "[geojson]") {
	const auto text = R"({"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[1.0,2.0]},)"
	                  R"({"type":"GeometryCollection","geometries":[]},)"
	                  R"({"type":"MultiPoint","coordinates":[[3.0,4.0]]}]})";
	GeometryBatch batch;
	Read(text, batch);
	REQUIRE(batch.node_children == CountedVector<uint32_t> {3, 0, 0, 1, 0});
	REQUIRE(WriteGeoJson(batch, 0) == text);

	auto nested = PointText("1.0,2.0");
	for (int i = 0; i < 15; i++) {
		nested = CollectionText(nested);
	}
	REQUIRE(FromWkb(ToWkb(nested)) == nested);
	nested = CollectionText(nested);
	REQUIRE_THROWS_WITH(Read(nested, batch), Contains("GeoJSON") && Contains("more than 16 deep"));
}

TEST_CASE("One Z makes the whole geometry three-dimensional", "[geojson]") {
	REQUIRE(ToWkb(R"({"type":"LineString","coordinates":[[1,2],[3,4,5]]})") ==
	        Wkb().Header(GeometryType::LINESTRING, VERTEX_Z).Count(2).Doubles({1, 2, 0, 3, 4, 5}).bytes);
	REQUIRE(ToWkb(R"({"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[1,2]},)"
	              R"({"type":"Point","coordinates":[1,2,3]},{"type":"Point","coordinates":[]}]})") ==
	        Wkb()
	            .Header(GeometryType::GEOMETRYCOLLECTION, VERTEX_Z)
	            .Count(3)
	            .Append(Point({1, 2, 0}))
	            .Append(Point({1, 2, 3}))
	            .Append(Empty(GeometryType::POINT, VERTEX_Z))
	            .bytes);

	// Rows of both kinds in one batch
	GeometryBatch batch;
	Read(PointText("1,2"), batch);
	REQUIRE(batch.z.empty());
	Read(PointText("3,4,5"), batch);
	Read(PointText("6,7"), batch);
	REQUIRE(batch.vertex_type == CountedVector<uint8_t> {VERTEX_XY, VERTEX_Z, VERTEX_XY});
	REQUIRE(batch.z.size() == 3);
	REQUIRE(std::isnan(batch.z[0]));
	REQUIRE(batch.z[1] == 5);
	REQUIRE(std::isnan(batch.z[2]));
	REQUIRE(batch.m.empty());
	REQUIRE(WriteGeoJson(batch, 1) == PointText("3.0,4.0,5.0"));
	REQUIRE(WriteGeoJson(batch, 2) == PointText("6.0,7.0"));
}

TEST_CASE("GeoJSON takes members in any order and ignores those it does not know", "[geojson]") {
	REQUIRE(ToWkb(R"(  {"coordinates" : [ 1 , 2 ] , "type" : "Point"}  )") == Point({1, 2}));
	REQUIRE(ToWkb("\t{\r\n\"type\":\"Point\",\"coordinates\":[1,2]}\n") == Point({1, 2}));
	REQUIRE(ToWkb(R"({"bbox":[1,2,1,2],"crs":{"a":[true,false,null,{"b":"\"x\\\u00e9"}]},)"
	              R"("type":"Point","coordinates":[1,2]})") == Point({1, 2}));
	REQUIRE(ToWkb(R"({"ty\u0070e":"Po\u0069nt","coordinates":[1,2]})") == Point({1, 2}));
	// The first of two members of one name counts
	REQUIRE(ToWkb(R"({"type":"Point","type":"LineString","coordinates":[1,2]})") == Point({1, 2}));
	REQUIRE_THROWS_WITH(ToWkb(R"({"t\u00ffype":"Point","type\n":1,"coordinates":[1,2]})"),
	                    Contains("no member \"type\""));
}

TEST_CASE("GeoJSON numbers are read to the nearest double", "[geojson]") {
	const auto number = [](const std::string &text) {
		GeometryBatch batch;
		Read(PointText(text + ",0"), batch);
		return batch.x[0];
	};
	REQUIRE(number("0.1") == 0.1);
	REQUIRE(number("-1.5e3") == -1500);
	REQUIRE(number("1E+2") == 100);
	REQUIRE(number("9007199254740993") == 9007199254740992.0);
	REQUIRE(number("9007199254740993.00000000000000000000000000000001") == 9007199254740994.0);
	REQUIRE(number("18446744073709551615") == 18446744073709551616.0);
	REQUIRE(number("1.7976931348623157e308") == 1.7976931348623157e308);
	REQUIRE(number("2.2250738585072011e-308") == 2.2250738585072011e-308);
	REQUIRE(number("4.9406564584124654e-324") == 4.9406564584124654e-324);
	REQUIRE(number("1e-400") == 0);
	REQUIRE(number("0." + std::string(400, '0') + "1") == 0);
	REQUIRE(number("0." + std::string(400, '0') + "1e401") == 1);
	REQUIRE(number("1" + std::string(400, '0') + "e-400") == 1);
	REQUIRE(number("0e999999999999999999999") == 0);
	REQUIRE(number("1e-999999999999999999999") == 0);
	REQUIRE_FALSE(std::signbit(number("-0")));
	REQUIRE(std::signbit(number("-0.0")));
	REQUIRE(std::signbit(number("-1e-400")));
	for (auto large : {"1e400", "-1e309", "1.8e308", "1e999999999999999999999", "123456789e301"}) {
		REQUIRE_THROWS_WITH(number(large), Contains("GeoJSON") && Contains("too large"));
	}
	REQUIRE_THROWS_WITH(number("1" + std::string(400, '0')), Contains("too large"));
}

TEST_CASE("What is not JSON is refused", "[geojson]") {
	GeometryBatch batch;
	Read(PointText("1,2"), batch);
	const auto good = PointText("1,2");
	std::vector<std::string> texts = {"",
	                                  "   ",
	                                  "x",
	                                  good + "x",
	                                  good + good,
	                                  good + ",",
	                                  R"({"type":"Point","coordinates":[1,2],})",
	                                  R"({"type":"Point","coordinates":[1,2,]})",
	                                  R"({"type":"Point" "coordinates":[1,2]})",
	                                  R"({"type":"Point","coordinates"[1,2]})",
	                                  R"({"type":"Point","coordinates":[1 2]})",
	                                  R"({"type":"Point","coordinates":[1,2})",
	                                  R"({type:"Point","coordinates":[1,2]})",
	                                  R"({'type':'Point','coordinates':[1,2]})",
	                                  R"({"type":"Point","coordinates":[1,2]/**/})",
	                                  R"({"type":"Po\xint","coordinates":[1,2]})",
	                                  R"({"type":"Po\u00int","coordinates":[1,2]})",
	                                  "{\"type\":\"Po\nint\",\"coordinates\":[1,2]}",
	                                  R"({"a":tru,"type":"Point","coordinates":[1,2]})",
	                                  R"({"a":nul)",
	                                  std::string("{\"a\\\0\":1}", 8)};
	for (auto number : {"01", "+1", ".5", "1.", "1e", "1e+", "-", "--1", "0x1", "NaN", "Infinity", "-Infinity", "1_0",
	                    "1.e5", "1,,2", "nan", "inf"}) {
		texts.push_back(PointText(std::string(number) + ",2"));
	}
	for (size_t size = 0; size < good.size(); size++) {
		texts.push_back(good.substr(0, size));
	}
	for (const auto &text : texts) {
		INFO(text);
		REQUIRE_THROWS_AS(Read(text, batch), GeometryError);
		REQUIRE_THROWS_WITH(Read(text, batch), Contains("could not parse GeoJSON"));
	}
	REQUIRE_THROWS_WITH(Read(good + " x", batch), Contains("after the end at byte 37"));
	REQUIRE_THROWS_WITH(Read(PointText("01,2"), batch), Contains("leading zero"));
	REQUIRE_THROWS_WITH(Read(std::string(100000, '['), batch), Contains("nests deeper than 256"));
	std::string objects;
	for (int i = 0; i < 100000; i++) {
		objects += "{\"a\":";
	}
	REQUIRE_THROWS_WITH(Read(objects, batch), Contains("nests deeper than 256"));
	REQUIRE(batch.RowCount() == 1);
	REQUIRE(WriteWkb(batch, 0) == Point({1, 2}));
}

TEST_CASE("What is not a geometry is refused", "[geojson]") {
	const std::pair<const char *, const char *> refused[] = {
	    {"null", "an object expected"},
	    {"[]", "an object expected"},
	    {"1", "an object expected"},
	    {"{}", "no member \"type\""},
	    {R"({"coordinates":[1,2]})", "no member \"type\""},
	    {R"({"type":1,"coordinates":[1,2]})", "\"type\" is not a string"},
	    {R"({"type":"point","coordinates":[1,2]})", "unknown type \"point\""},
	    {R"({"type":"Points","coordinates":[1,2]})", "unknown type \"Points\""},
	    {R"({"type":"Poin","coordinates":[1,2]})", "unknown type \"Poin\""},
	    {R"({"type":"Feature","geometry":{"type":"Point","coordinates":[1,2]}})", "it is a Feature"},
	    {R"({"type":"FeatureCollection","features":[]})", "it is a FeatureCollection"},
	    {R"({"type":"Point"})", "no member \"coordinates\""},
	    {R"({"type":"Point","coordinates":null})", "\"coordinates\" is not an array"},
	    {R"({"type":"Point","coordinates":{}})", "\"coordinates\" is not an array"},
	    {R"({"type":"Point","coordinates":[1]})", "fewer than 2 numbers"},
	    {R"({"type":"Point","coordinates":["1",2]})", "other than numbers"},
	    {R"({"type":"Point","coordinates":[null,2]})", "other than numbers"},
	    {R"({"type":"Point","coordinates":[[1,2]]})", "other than numbers"},
	    {R"({"type":"LineString","coordinates":[1,2]})", "other than an array"},
	    {R"({"type":"LineString","coordinates":[[1,2],[]]})", "fewer than 2 numbers"},
	    {R"({"type":"Polygon","coordinates":[[1,2],[3,4]]})", "other than an array"},
	    {R"({"type":"Polygon","coordinates":[1]})", "other than an array"},
	    {R"({"type":"MultiPoint","coordinates":[[1,2],[]]})", "fewer than 2 numbers"},
	    {R"({"type":"MultiPoint","coordinates":[1]})", "other than an array"},
	    {R"({"type":"MultiPolygon","coordinates":[[[1,2]]]})", "other than an array"},
	    {R"({"type":"GeometryCollection"})", "no member \"geometries\""},
	    {R"({"type":"GeometryCollection","geometries":null})", "\"geometries\" is not an array"},
	    {R"({"type":"GeometryCollection","geometries":[1]})", "an object expected"},
	    {R"({"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[1,2,3]},{}]})",
	     "no member \"type\""},
	};
	GeometryBatch batch;
	Read(PointText("1,2"), batch);
	for (const auto &geometry : refused) {
		INFO(geometry.first);
		REQUIRE_THROWS_AS(Read(geometry.first, batch), GeometryError);
		REQUIRE_THROWS_WITH(Read(geometry.first, batch), Contains("GeoJSON") && Contains(geometry.second));
	}
	REQUIRE(batch.RowCount() == 1);
	REQUIRE(batch.z.empty());
	REQUIRE(WriteWkb(batch, 0) == Point({1, 2}));
}

TEST_CASE("GeoJSON is written as DuckDB spatial writes it", "[geojson]") {
	REQUIRE(FromWkb(Point({1, 2})) == R"({"type":"Point","coordinates":[1.0,2.0]})");
	REQUIRE(FromWkb(Empty(GeometryType::POINT, 0)) == R"({"type":"Point","coordinates":[]})");
	REQUIRE(FromWkb(Empty(GeometryType::GEOMETRYCOLLECTION, 0)) == R"({"type":"GeometryCollection","geometries":[]})");
	// Z is written, M is not
	REQUIRE(FromWkb(Sample(GeometryType::POINT, VERTEX_M)) == R"({"type":"Point","coordinates":[1.25,2.5]})");
	REQUIRE(FromWkb(Sample(GeometryType::POINT, VERTEX_Z | VERTEX_M)) ==
	        R"({"type":"Point","coordinates":[1.25,2.5,3.75]})");
	REQUIRE(FromWkb(Sample(GeometryType::LINESTRING, 0)) ==
	        R"({"type":"LineString","coordinates":[[1.25,2.5],[3.75,5.0],[6.25,7.5]]})");
	REQUIRE(FromWkb(Wkb().Header(GeometryType::POLYGON).Count(2).Count(1).Doubles({1, 2}).Count(0).bytes) ==
	        R"({"type":"Polygon","coordinates":[[[1.0,2.0]],[]]})");
	// EMPTY points of a MULTIPOINT are left out, other EMPTY members are not
	REQUIRE(FromWkb(Sample(GeometryType::MULTIPOINT, 0)) ==
	        R"({"type":"MultiPoint","coordinates":[[1.25,2.5],[1.25,2.5]]})");
	REQUIRE(FromWkb(Wkb().Header(GeometryType::MULTIPOINT).Count(1).Append(Empty(GeometryType::POINT, 0)).bytes) ==
	        R"({"type":"MultiPoint","coordinates":[]})");
	REQUIRE(
	    FromWkb(
	        Wkb().Header(GeometryType::MULTILINESTRING).Count(1).Append(Empty(GeometryType::LINESTRING, 0)).bytes) ==
	    R"({"type":"MultiLineString","coordinates":[[]]})");
	REQUIRE(FromWkb(Wkb().Header(GeometryType::MULTIPOLYGON).Count(1).Append(Empty(GeometryType::POLYGON, 0)).bytes) ==
	        R"({"type":"MultiPolygon","coordinates":[[]]})");
	for (double bad : {NaN, INF, -INF}) {
		REQUIRE_THROWS_WITH(FromWkb(Point({1, bad})), Contains("GeoJSON") && Contains("NaN or infinite"));
	}
	GeometryBatch batch;
	batch.AppendNull();
	REQUIRE_THROWS_AS(WriteGeoJson(batch, 0), GeometryError);
}

TEST_CASE("GeoJSON of every type with Z comes back the same", "[geojson]") {
	for (auto type : TYPES) {
		for (uint8_t vertex_type : {VERTEX_XY, VERTEX_Z}) {
			const auto text = FromWkb(Sample(type, vertex_type));
			REQUIRE(FromWkb(ToWkb(text)) == text);
		}
	}
}

TEST_CASE("Numbers are written with the fewest digits that read back", "[geojson]") {
	const auto json = [](double value) {
		char out[JSON_NUMBER_CHARS];
		return std::string(out, WriteJsonNumber(value, out));
	};
	// As DuckDB 1.5.5 writes them
	REQUIRE(json(0) == "0.0");
	REQUIRE(json(-0.0) == "-0.0");
	REQUIRE(json(1) == "1.0");
	REQUIRE(json(-12.5) == "-12.5");
	REQUIRE(json(0.1) == "0.1");
	REQUIRE(json(100) == "100.0");
	REQUIRE(json(0.00001) == "0.00001");
	REQUIRE(json(1e-6) == "0.000001");
	REQUIRE(json(1.5e-6) == "0.0000015");
	REQUIRE(json(1e-7) == "1e-7");
	REQUIRE(json(-1.25e-7) == "-1.25e-7");
	REQUIRE(json(123456789012345680.0) == "123456789012345680.0");
	REQUIRE(json(1e20) == "100000000000000000000.0");
	REQUIRE(json(123456789012345680000.0) == "123456789012345680000.0");
	REQUIRE(json(1e21) == "1e21");
	REQUIRE(json(1.5e300) == "1.5e300");
	REQUIRE(json(5e-324) == "5e-324");
	REQUIRE(json(1.7976931348623157e308) == "1.7976931348623157e308");
	REQUIRE(json(1.0 / 3) == "0.3333333333333333");

	uint64_t state = 1;
	for (int i = 0; i < 20000; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		double value;
		std::memcpy(&value, &state, sizeof(value));
		if (std::isfinite(value)) {
			REQUIRE(std::strtod(json(value).c_str(), nullptr) == value);
			REQUIRE(std::strtod(FormatNumber(value).c_str(), nullptr) == value);
		}
		value = static_cast<double>(static_cast<int64_t>(state)) / 1e12;
		REQUIRE(std::strtod(json(value).c_str(), nullptr) == value);
	}
}

TEST_CASE("Numbers have the digits that the C++ library gives them", "[geojson]") {
	std::mt19937_64 random(11);
	const auto check = [](double value) {
		char out[JSON_NUMBER_CHARS], expected[JSON_NUMBER_CHARS];
		const std::string text(out, WriteJsonNumber(value, out));
		const auto end = std::to_chars(expected, expected + sizeof(expected), value, std::chars_format::scientific).ptr;
		// the same digits, without zeros at either end, and the same value
		const auto digits = [](const std::string &number) {
			std::string kept;
			for (const auto c : number.substr(0, number.find('e'))) {
				kept += c >= '0' && c <= '9' ? std::string(1, c) : "";
			}
			kept.erase(0, kept.find_first_not_of('0'));
			kept.erase(kept.find_last_not_of('0') + 1);
			return kept;
		};
		double again = 0;
		std::from_chars(text.data(), text.data() + text.size(), again);
		INFO(text);
		REQUIRE(again == value);
		REQUIRE(digits(text) == digits(std::string(expected, end)));
	};
	for (int round = 0; round < 20000; round++) {
		const auto bits = random();
		double any;
		std::memcpy(&any, &bits, sizeof(any));
		if (std::isfinite(any)) {
			check(any);
		}
		const auto shift = static_cast<int>(random() % 120);
		check(std::ldexp(static_cast<double>(random() >> 11), -shift));
		check(std::ldexp(1.0, shift - 60));
		check(static_cast<double>(random() % 3600000000) / 1e7 - 180);
		check(std::nextafter(static_cast<double>(random() % 36000) / 100, round % 2 ? 1e9 : -1e9));
		check(static_cast<double>(random()));
	}
}

TEST_CASE("What is read in one pass is the same as through a tree", "[geojson]") {
	// A member more leads through the tree
	const auto same = [](const std::string &type, const std::string &coordinates) {
		const auto plain = "{\"type\":\"" + type + "\",\"coordinates\":" + coordinates + "}";
		const auto tree = "{\"a\":0,\"type\":\"" + type + "\",\"coordinates\":" + coordinates + "}";
		const auto result = [](const std::string &text) {
			try {
				return ToWkb(text);
			} catch (const GeometryError &error) {
				const std::string message = error.what();
				return message.substr(0, message.find(" at byte"));
			}
		};
		INFO(plain);
		REQUIRE(result(plain) == result(tree));
	};
	for (auto number : {"0",
	                    "-0",
	                    "-0.0",
	                    "0.5",
	                    "12.25",
	                    "-85.38088499793109",
	                    "33.788445541993795",
	                    "9007199254740993",
	                    "1e2",
	                    "-1E-2",
	                    "1e400",
	                    "1e-400",
	                    "0.1e1",
	                    "123456789012345678901234567890",
	                    "0.00000000000000000000000123",
	                    "1.",
	                    ".5",
	                    "01",
	                    "-",
	                    "+1",
	                    "1e",
	                    "1e+",
	                    "nan",
	                    "0.30000000000000000000000000000000001",
	                    "5e-324",
	                    "9999999999999999999",
	                    "18446744073709551616",
	                    "1 2",
	                    "\"1\""}) {
		same("Point", std::string("[") + number + ",2]");
		same("LineString", std::string("[[1,2],[3,") + number + "]]");
	}
	for (auto type : {"Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon"}) {
		for (auto coordinates : {"[]",
		                         "[[]]",
		                         "[[[]]]",
		                         "[[[[]]]]",
		                         "[1,2]",
		                         "[[1,2]]",
		                         "[[[1,2]]]",
		                         "[[[[1,2]]]]",
		                         "[1,2,3]",
		                         "[[1,2,3],[4,5]]",
		                         "[[1,2],[3,4,5]]",
		                         "[[1,2,3],[4,5,6]]",
		                         "[1,2,3,4]",
		                         "[1]",
		                         "[[1]]",
		                         "[[1,2],[]]",
		                         "[[1,2],[3,4]]",
		                         "[[[1,2],[3,4]],[[5,6]]]",
		                         "[[[1,2,3],[3,4,5]],[]]",
		                         "[[[[1,2],[3,4]]],[[[5,6]],[]]]",
		                         "[ [ 1 , 2 ] , [ 3 , 4 ] ]",
		                         "[[1,2],]",
		                         "[,]",
		                         "[1,2",
		                         "[[1,2]",
		                         "null",
		                         "{}",
		                         "[null]",
		                         "[[1,null]]",
		                         "[[1,2]]]"}) {
			same(type, coordinates);
		}
	}
}
