#include "geometry/json.hpp"

#include "geometry/error.hpp"

#include <charconv>
#include <cstring>

namespace vibespatial {

namespace {

bool IsDigit(char c) {
	return c >= '0' && c <= '9';
}

//! The value of a hexadecimal digit; -1 for another character
int HexDigit(char c) {
	if (IsDigit(c)) {
		return c - '0';
	}
	const char lower = c | 0x20;
	return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

class JsonParser {
public:
	JsonParser(const char *text, size_t size, CountedVector<JsonValue> &values)
	    : begin(text), pos(text), end(text + size), values(values) {
	}

	void Parse() {
		if (end - begin > UINT32_MAX) {
			Fail("it is longer than 4 GiB");
		}
		SkipSpace();
		if (pos == end) {
			Fail("it is empty");
		}
		Value(0);
		if (pos != end) {
			Fail("unexpected text after the end");
		}
	}

private:
	[[noreturn]] void Fail(const std::string &problem) const {
		throw GeometryError("could not parse GeoJSON: " + problem + " at byte " + std::to_string(pos - begin));
	}

	void SkipSpace() {
		while (pos < end && (*pos == ' ' || *pos == '\n' || *pos == '\r' || *pos == '\t')) {
			pos++;
		}
	}

	bool TryTake(char c) {
		if (pos < end && *pos == c) {
			pos++;
			return true;
		}
		return false;
	}

	void Take(char c) {
		if (!TryTake(c)) {
			Fail(std::string("'") + c + "' expected");
		}
		SkipSpace();
	}

	//! Appends one value and what is in it, and skips the space after it
	void Value(uint32_t depth) {
		if (pos == end) {
			Fail("unexpected end");
		}
		if (depth == JsonTree::MAX_DEPTH) {
			Fail("it nests deeper than " + std::to_string(JsonTree::MAX_DEPTH));
		}
		switch (*pos) {
		case '{':
			Members(JsonKind::OBJECT, '}', depth);
			break;
		case '[':
			Members(JsonKind::ARRAY, ']', depth);
			break;
		case '"':
			String();
			break;
		case 't':
			Word("true", JsonKind::BOOLEAN);
			break;
		case 'f':
			Word("false", JsonKind::BOOLEAN);
			break;
		case 'n':
			Word("null", JsonKind::NULL_VALUE);
			break;
		default:
			Number();
			break;
		}
		SkipSpace();
	}

	size_t Append(JsonKind kind) {
		poll();
		values.push_back(JsonValue {kind, 0, 0, 0, {0}});
		return values.size() - 1;
	}

	void Members(JsonKind kind, char close, uint32_t depth) {
		const auto parent = Append(kind);
		const auto first = pos;
		size_t last = 0;
		// Links the child that comes next
		const auto link = [&]() {
			if (last != 0) {
				values[last].next = static_cast<uint32_t>(values.size());
			}
			last = values.size();
			values[parent].count++;
		};
		const auto finish = [&]() {
			values[parent].text = first;
			values[parent].length = static_cast<uint32_t>(pos - first);
		};
		pos++;
		SkipSpace();
		if (TryTake(close)) {
			finish();
			return;
		}
		do {
			SkipSpace();
			if (kind == JsonKind::OBJECT) {
				if (pos == end || *pos != '"') {
					Fail("the name of a member expected");
				}
				link();
				String();
				SkipSpace();
				Take(':');
			}
			link();
			Value(depth + 1);
		} while (TryTake(','));
		if (!TryTake(close)) {
			Fail(std::string("',' or '") + close + "' expected");
		}
		finish();
	}

	void Word(const char *word, JsonKind kind) {
		const auto length = std::strlen(word);
		if (size_t(end - pos) < length || std::memcmp(pos, word, length) != 0) {
			Fail("unexpected character");
		}
		pos += length;
		Append(kind);
	}

	void String() {
		const auto first = ++pos;
		while (pos < end && *pos != '"') {
			if (static_cast<unsigned char>(*pos) < 0x20) {
				Fail("control character in a string");
			}
			if (*pos++ == '\\') {
				Escape();
			}
		}
		if (pos == end) {
			Fail("unexpected end in a string");
		}
		auto &value = values[Append(JsonKind::STRING)];
		value.text = first;
		value.length = static_cast<uint32_t>(pos - first);
		pos++;
	}

	void Escape() {
		if (pos == end || *pos == '\0' || !std::strchr("\"\\/bfnrtu", *pos)) {
			Fail("unknown escape in a string");
		}
		if (*pos++ != 'u') {
			return;
		}
		for (int i = 0; i < 4; i++, pos++) {
			if (pos == end || HexDigit(*pos) < 0) {
				Fail("four hexadecimal digits expected after \\u");
			}
		}
	}

	void Digits() {
		if (pos == end || !IsDigit(*pos)) {
			Fail("a digit expected");
		}
		while (pos < end && IsDigit(*pos)) {
			pos++;
		}
	}

	void Number() {
		const auto first = pos;
		TryTake('-');
		if (pos == end || !IsDigit(*pos)) {
			pos = first;
			Fail("unexpected character");
		}
		if (TryTake('0')) {
			if (pos < end && IsDigit(*pos)) {
				Fail("a number with a leading zero");
			}
		} else {
			Digits();
		}
		bool integer = true;
		if (TryTake('.')) {
			integer = false;
			Digits();
		}
		if (TryTake('e') || TryTake('E')) {
			integer = false;
			if (!TryTake('-')) {
				TryTake('+');
			}
			Digits();
		}
		double number = 0;
		const auto parsed = std::from_chars(first, pos, number);
		if (parsed.ec == std::errc::result_out_of_range) {
			if (IsLarge(first)) {
				pos = first;
				Fail("a number too large for a double");
			}
			number = *first == '-' ? -0.0 : 0.0;
		}
		// An integer has no negative zero
		values[Append(JsonKind::NUMBER)].number = integer ? number + 0.0 : number;
	}

	//! Whether a number at [first, pos) that is out of range is so by being large: the place of its first digit
	//! other than 0, counted from the point, and its exponent tell
	bool IsLarge(const char *first) const {
		long long place = 0;
		bool seen = false;
		bool fraction = false;
		auto at = first;
		for (; at < pos && *at != 'e' && *at != 'E'; at++) {
			if (*at == '.') {
				fraction = true;
			} else if (IsDigit(*at)) {
				seen |= *at != '0';
				place += fraction ? (seen ? 0 : -1) : (seen ? 1 : 0);
			}
		}
		if (at == pos) {
			return place > 0;
		}
		at++;
		const bool negative = *at == '-';
		at += negative || *at == '+';
		long long exponent = 0;
		if (std::from_chars(at, pos, exponent).ec != std::errc()) {
			return !negative;
		}
		return negative ? place > exponent : exponent > -place;
	}

	const char *begin;
	const char *pos;
	const char *end;
	CountedVector<JsonValue> &values;
	Poll poll;
};

} // namespace

JsonTree::JsonTree(const char *text, size_t size) {
	JsonParser(text, size, values).Parse();
}

const JsonValue *JsonTree::Find(const JsonValue &object, const char *name) const {
	for (auto key = First(object); key;) {
		const auto value = Next(*key);
		if (Equals(*key, name)) {
			return value;
		}
		key = Next(*value);
	}
	return nullptr;
}

bool JsonTree::Equals(const JsonValue &string, const char *name) {
	const auto end = string.text + string.length;
	for (auto at = string.text; at < end; name++) {
		char c = *at++;
		if (c == '\\') {
			c = *at++;
			if (c == 'u') {
				int code = 0;
				for (int i = 0; i < 4; i++) {
					code = code * 16 + HexDigit(*at++);
				}
				// Nothing beyond ASCII is in a name, nor is 0
				c = code < 0x80 ? static_cast<char>(code) : '\0';
			} else if (std::strchr("bfnrt", c)) {
				c = '\0';
			}
		}
		if (c == '\0' || c != *name) {
			return false;
		}
	}
	return *name == '\0';
}

std::string JsonTree::Text(const JsonValue &string) {
	std::string result;
	const auto end = string.text + string.length;
	const auto unit = [](const char *digits) {
		uint32_t code = 0;
		for (int i = 0; i < 4; i++) {
			code = code * 16 + static_cast<uint32_t>(HexDigit(digits[i]));
		}
		return code;
	};
	const auto is_surrogate = [](uint32_t code, uint32_t first) { return code >= first && code < first + 0x400; };
	for (auto at = string.text; at < end;) {
		if (*at != '\\') {
			result += *at++;
			continue;
		}
		const char c = at[1];
		at += 2;
		if (c != 'u') {
			static const char NAMES[] = "bfnrt", MEANT[] = "\b\f\n\r\t";
			const auto name = std::strchr(NAMES, c);
			result += name ? MEANT[name - NAMES] : c;
			continue;
		}
		auto code = unit(at);
		at += 4;
		if (is_surrogate(code, 0xD800) && end - at >= 6 && at[0] == '\\' && at[1] == 'u' &&
		    is_surrogate(unit(at + 2), 0xDC00)) {
			code = 0x10000 + ((code - 0xD800) << 10) + (unit(at + 2) - 0xDC00);
			at += 6;
		} else if (is_surrogate(code, 0xD800) || is_surrogate(code, 0xDC00)) {
			code = 0xFFFD; // half a character
		}
		// UTF-8
		const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
		static const uint32_t LEAD[] = {0, 0xC0, 0xE0, 0xF0};
		result += static_cast<char>(LEAD[more] | code >> 6 * more);
		for (int i = more - 1; i >= 0; i--) {
			result += static_cast<char>(0x80 | (code >> 6 * i & 0x3F));
		}
	}
	return result;
}

} // namespace vibespatial
