#include "geometry/geoparquet.hpp"

#include "geometry/error.hpp"
#include "geometry/json.hpp"

#include <map>

namespace vibespatial {

namespace {

const JsonValue *FindOf(const JsonTree &tree, const JsonValue *object, const char *name, JsonKind kind) {
	if (!object || object->kind != JsonKind::OBJECT) {
		return nullptr;
	}
	auto found = tree.Find(*object, name);
	return found && found->kind == kind ? found : nullptr;
}

//! A path ["struct", "field"]
bool ReadPath(const JsonTree &tree, const JsonValue *path, std::string &column, std::string &field) {
	if (!path || path->count != 2) {
		return false;
	}
	auto first = tree.First(*path);
	auto second = tree.Next(*first);
	if (first->kind != JsonKind::STRING || second->kind != JsonKind::STRING) {
		return false;
	}
	column = JsonTree::Text(*first);
	field = JsonTree::Text(*second);
	return true;
}

void ReadCovering(const JsonTree &tree, const JsonValue *value, GeoParquetColumn &column) {
	static const char *const SIDES[] = {"xmin", "ymin", "xmax", "ymax"};
	auto box = FindOf(tree, FindOf(tree, value, "covering", JsonKind::OBJECT), "bbox", JsonKind::OBJECT);
	std::string of_first;
	for (size_t i = 0; i < 4; i++) {
		std::string of_side;
		if (!ReadPath(tree, FindOf(tree, box, SIDES[i], JsonKind::ARRAY), of_side, column.box_fields[i]) ||
		    (i > 0 && of_side != of_first)) {
			return;
		}
		of_first = of_side;
	}
	column.box_column = of_first;
}

//! GeoPandas writes the boxes of the primary column, and names them for all columns
void DropForeignBoxes(const std::string &primary, std::vector<GeoParquetColumn> &columns) {
	std::map<std::string, size_t> uses;
	for (auto &column : columns) {
		uses[column.box_column]++;
	}
	for (auto &column : columns) {
		if (column.name != primary && uses[column.box_column] > 1) {
			column.box_column.clear();
		}
	}
}

} // namespace

std::vector<GeoParquetColumn> ReadGeoParquet(const char *text, size_t size) {
	JsonTree tree(text, size);
	auto columns = FindOf(tree, &tree.Root(), "columns", JsonKind::OBJECT);
	if (!columns) {
		throw GeometryError("the metadata 'geo' of a GeoParquet file have no columns");
	}
	std::vector<GeoParquetColumn> result;
	for (auto key = tree.First(*columns); key;) {
		auto value = tree.Next(*key);
		GeoParquetColumn column;
		column.name = JsonTree::Text(*key);
		if (auto encoding = FindOf(tree, value, "encoding", JsonKind::STRING)) {
			column.encoding = JsonTree::Text(*encoding);
			for (auto &c : column.encoding) {
				c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
			}
		}
		if (FindOf(tree, value, "crs", JsonKind::NULL_VALUE)) {
			column.crs = GeoParquetColumn::Crs::UNKNOWN;
		} else if (auto crs = FindOf(tree, value, "crs", JsonKind::OBJECT)) {
			column.crs = GeoParquetColumn::Crs::GIVEN;
			column.crs_text.assign(crs->text, crs->length);
		}
		ReadCovering(tree, value, column);
		result.push_back(std::move(column));
		key = tree.Next(*value);
	}
	auto primary = FindOf(tree, &tree.Root(), "primary_column", JsonKind::STRING);
	DropForeignBoxes(primary ? JsonTree::Text(*primary) : std::string(), result);
	return result;
}

} // namespace vibespatial
