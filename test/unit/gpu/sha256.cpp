#include "gpu_plugin/compile/sha256.hpp"

#include <catch.hpp>

using vibespatial::Sha256;

TEST_CASE("SHA-256 of the published examples", "[gpu][sha256]") {
	// FIPS 180-4 and NIST's example values
	REQUIRE(Sha256::HexOf("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	REQUIRE(Sha256::HexOf("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	REQUIRE(Sha256::HexOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
	        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	REQUIRE(Sha256::HexOf(std::string(1000000, 'a')) ==
	        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 does not depend on how the bytes come", "[gpu][sha256]") {
	std::string text;
	for (int i = 0; i < 300; i++) {
		text += static_cast<char>(i * 7);
	}
	for (size_t step = 1; step < 130; step += 3) {
		Sha256 hash;
		for (size_t at = 0; at < text.size(); at += step) {
			hash.Add(text.substr(at, step));
		}
		REQUIRE(Sha256::Hex(hash.Finish()) == Sha256::HexOf(text));
	}
}
