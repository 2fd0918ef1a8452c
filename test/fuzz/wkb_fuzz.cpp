//===----------------------------------------------------------------------===//
// wkb_fuzz.cpp
//
// Mutated WKB and GeoJSON against every reader (reader_checks.hpp). Needs no clang: it mutates by itself, blind. The fuzzers that coverage
// guides are in targets.
//
//   vibespatial_fuzz_wkb [iterations = 200000] [seed = 1]
//===----------------------------------------------------------------------===//
#include "reader_checks.hpp"

using namespace vibespatial;
using namespace vibespatial::fuzz;
using namespace wkb_test;

namespace {

class Random {
public:
	explicit Random(uint64_t seed) : state(seed) {
	}
	uint64_t Next() {
		// splitmix64
		auto value = (state += 0x9E3779B97F4A7C15ull);
		value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
		value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
		return value ^ (value >> 31);
	}
	size_t Below(size_t limit) {
		return limit == 0 ? 0 : Next() % limit;
	}

private:
	uint64_t state;
};

//! Seeds and the mutants that were accepted
class Pool {
public:
	Pool(std::vector<std::string> seeds, std::vector<std::string> words, bool binary, Random &random)
	    : inputs(std::move(seeds)), words(std::move(words)), binary(binary), random(random) {
		seed_count = inputs.size();
	}

	std::string Mutant() {
		auto input = inputs[random.Below(inputs.size())];
		for (auto rounds = 1 + random.Below(4); rounds > 0; rounds--) {
			Mutate(input);
		}
		return input;
	}

	void Keep(const std::string &input) {
		constexpr size_t MOST_INPUTS = 2000;
		constexpr size_t MOST_BYTES = 4000;
		if (input.size() > MOST_BYTES) {
			return;
		}
		if (inputs.size() < MOST_INPUTS) {
			inputs.push_back(input);
		} else {
			inputs[seed_count + random.Below(inputs.size() - seed_count)] = input;
		}
	}

private:
	void Mutate(std::string &input) {
		if (binary && random.Below(3) == 0) {
			MutateNode(input);
			return;
		}
		const auto at = random.Below(input.size() + 1);
		const auto length = random.Below(std::min<size_t>(input.size() - at, 64) + 1);
		switch (random.Below(10)) {
		case 0: // flip a bit
			if (at < input.size()) {
				input[at] ^= 1 << random.Below(8);
			}
			break;
		case 1: // any byte
			if (at < input.size()) {
				input[at] = static_cast<char>(random.Next());
			}
			break;
		case 2: // cut the end off
			input.resize(at);
			break;
		case 3: // bytes more
			for (auto more = random.Below(20); more > 0; more--) {
				input.push_back(static_cast<char>(random.Next()));
			}
			break;
		case 4: // drop a piece
			input.erase(at, length);
			break;
		case 5: // repeat a piece
			input.insert(at, input.substr(at, length));
			break;
		case 6: { // the head of this one and the tail of another
			const auto &other = inputs[random.Below(inputs.size())];
			input = input.substr(0, at) + other.substr(random.Below(other.size() + 1));
			break;
		}
		case 7: { // a whole other one inside
			input.insert(at, inputs[random.Below(inputs.size())]);
			break;
		}
		case 8: // a word over what is there
			Put(input, at, words[random.Below(words.size())]);
			break;
		case 9: // a word between
			input.insert(at, words[random.Below(words.size())]);
			break;
		}
	}

	//! Changes the type or the count of something that looks like a header, or puts a member in
	void MutateNode(std::string &input) {
		std::vector<size_t> headers;
		for (size_t at = 0; at + 9 <= input.size(); at++) {
			if (input[at] == 1 && ReadCount(input, at + 1) % 1000 <= 8 && ReadCount(input, at + 1) < 5000) {
				headers.push_back(at);
			}
		}
		if (headers.empty()) {
			return;
		}
		const auto at = headers[random.Below(headers.size())];
		auto code = ReadCount(input, at + 1);
		auto count = ReadCount(input, at + 5);
		switch (random.Below(5)) {
		case 0:
			code = code / 1000 * 1000 + random.Below(9);
			break;
		case 1:
			code = code % 1000 + 1000 * random.Below(5);
			break;
		case 2:
			count += random.Below(2) == 0 ? 1 : -1;
			break;
		default: {
			// Often one of the same dimensions
			auto member = inputs[random.Below(inputs.size())];
			for (int tries = 0; tries < 10 && (member.size() < 5 || ReadCount(member, 1) / 1000 != code / 1000);
			     tries++) {
				member = inputs[random.Below(inputs.size())];
			}
			input.insert(at + 9, member);
			count++;
			break;
		}
		}
		Put(input, at + 1, Wkb().Count(code).Count(count).bytes);
	}

	static uint32_t ReadCount(const std::string &input, size_t at) {
		uint32_t count;
		std::memcpy(&count, input.data() + at, sizeof(count));
		return count;
	}

	static void Put(std::string &input, size_t at, const std::string &word) {
		for (size_t i = 0; i < word.size() && at + i < input.size(); i++) {
			input[at + i] = word[i];
		}
	}

	std::vector<std::string> inputs;
	std::vector<std::string> words;
	const bool binary;
	Random &random;
	size_t seed_count;
};

std::vector<std::string> WkbSeeds() {
	std::vector<std::string> seeds;
	for (auto type : TYPES) {
		for (uint8_t vertex_type = 0; vertex_type < 4; vertex_type++) {
			seeds.push_back(Sample(type, vertex_type));
			seeds.push_back(Empty(type, vertex_type));
		}
	}
	seeds.push_back(Nested(3));
	seeds.push_back(Nested(15));
	seeds.push_back(Nested(16));
	return seeds;
}

std::vector<std::string> WkbWords() {
	std::vector<std::string> words;
	// Counts
	for (uint32_t count : {0u, 1u, 2u, 3u, 4u, 5u, 0xFFu, 0x0FFFFFFFu, 0x10000000u, 0x10000001u, 0x7FFFFFFFu,
	                       0x80000000u, 0xFFFFFFFFu}) {
		words.push_back(Wkb().Count(count).bytes);
	}
	// Headers, good and bad
	for (uint32_t flags : {0u, 1000u, 2000u, 3000u, 4000u, 0x20000000u, 0x80000000u}) {
		for (uint32_t type = 0; type <= 8; type++) {
			words.push_back(Wkb().Code(type + flags).bytes);
		}
	}
	words.push_back(Wkb().Doubles({NaN, NaN}).bytes);
	for (double value : {0.0, -0.0, 1.0, 5e-324, 1e-7, 1e21, 1.7976931348623157e308, INF, -INF, NaN, -NaN}) {
		words.push_back(Wkb().Doubles({value}).bytes);
	}
	words.push_back(Empty(GeometryType::POINT, 0));
	words.push_back(Empty(GeometryType::POLYGON, 0));
	words.push_back(Wkb().Header(GeometryType::GEOMETRYCOLLECTION).Count(1).bytes);
	return words;
}

std::vector<std::string> GeoJsonSeeds() {
	std::vector<std::string> seeds;
	for (const auto &bytes : WkbSeeds()) {
		GeometryBatch batch;
		if (ErrorOf([&]() { ReadWkb(Data(bytes), bytes.size(), batch); }).empty()) {
			seeds.push_back(WriteGeoJson(batch, 0));
		}
	}
	seeds.push_back(R"( { "coordinates" : [ 1e0 , -2.5E-3 ] , "type" : "Point" , "a" : [ true , false , null ] } )");
	seeds.push_back(R"({"type":"Po\u0069nt","bbox":[0,0],"crs":{"n\"":"\\"},"coordinates":[0,1]})");
	return seeds;
}

std::vector<std::string> GeoJsonWords() {
	return {"{",
	        "}",
	        "[",
	        "]",
	        ",",
	        ":",
	        "\"",
	        "\\",
	        "\\u0041",
	        "\\u00",
	        "[]",
	        "{}",
	        "[1,2]",
	        "[1,2,3]",
	        "[[0,0]]",
	        "1e400",
	        "1e-400",
	        "1e99999",
	        "-0",
	        "-",
	        "0.",
	        "00",
	        "e5",
	        "123456789012345678901",
	        "null",
	        "true",
	        "false",
	        "nul",
	        "\"type\"",
	        "\"Point\"",
	        "\"Polygon\"",
	        "\"MultiPoint\"",
	        "\"coordinates\"",
	        "\"geometries\"",
	        "\"GeometryCollection\"",
	        "\"type\":\"Point\",",
	        "\t",
	        "\n",
	        "\xC3\xA9",
	        "[[[[[[[[[[[[[[[[",
	        "{\"a\":",
	        "{\"type\":\"GeometryCollection\",\"geometries\":[",
	        std::string(1, '\0')};
}

template <class CHECK>
void Fuzz(const char *name, CHECK &check, Pool &pool, uint64_t iterations) {
	Statistics statistics;
	for (uint64_t i = 0; i < iterations; i++) {
		const auto input = pool.Mutant();
		if (check.Run(input, statistics)) {
			pool.Keep(input);
		}
	}
	std::printf("%s: %llu inputs, %llu accepted, %llu refused\n", name, (unsigned long long)iterations,
	            (unsigned long long)statistics.accepted, (unsigned long long)statistics.refused);
	for (const auto &reason : statistics.reasons) {
		std::printf("  %10llu  %s\n", (unsigned long long)reason.second, reason.first.c_str());
	}
	// A run in which nothing is accepted, or nothing refused, shows nothing
	current_input.clear();
	Require(iterations < 1000 || (statistics.accepted > iterations / 100 && statistics.refused > iterations / 100),
	        "the inputs are neither all good nor all bad");
}

} // namespace

int main(int argc, char **argv) {
	const uint64_t iterations = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200000;
	Random random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);

	Pool wkb_pool(WkbSeeds(), WkbWords(), true, random);
	WkbCheck wkb_check;
	Fuzz("WKB", wkb_check, wkb_pool, iterations);

	Pool geojson_pool(GeoJsonSeeds(), GeoJsonWords(), false, random);
	GeoJsonCheck geojson_check;
	Fuzz("GeoJSON", geojson_check, geojson_pool, iterations / 4);
	std::printf("no failure\n");
	return 0;
}
