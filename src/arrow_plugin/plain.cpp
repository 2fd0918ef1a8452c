#include "arrow_plugin/plugin.hpp"

#include <arrow/array/array_run_end.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/exec.h>
#include <arrow/extension_type.h>
#include <arrow/util/key_value_metadata.h>

namespace vibespatial {

namespace {

constexpr const char *EXTENSION_NAME = "ARROW:extension:name";
constexpr const char *EXTENSION_METADATA = "ARROW:extension:metadata";
//! The values of all list views of a batch together: overlapping ones could make a small file a large table
constexpr int64_t MOST_VIEW_VALUES = int64_t(1) << 31;

using arrow::ArrayData;
using arrow::DataType;
using arrow::Field;
using arrow::Result;
using arrow::Status;
using arrow::Type;

//! Where a field is: encodings stay on the first level only, or everywhere where no more than storage is asked for
enum class Place : uint8_t { TOP, NESTED, STORAGE_ONLY };

std::shared_ptr<Field> Plain(const std::shared_ptr<Field> &field, Place place);

//! Of a dictionary or of runs: can they stay as they are?
bool CanStay(const DataType &value_type) {
	switch (value_type.id()) {
	case Type::DICTIONARY:
	case Type::RUN_END_ENCODED:
	case Type::EXTENSION:
		return false;
	default:
		return value_type.num_fields() == 0;
	}
}

bool CanStay(const DataType &value_type, Place place) {
	return place == Place::STORAGE_ONLY || (place == Place::TOP && CanStay(value_type));
}

std::shared_ptr<DataType> PlainType(const std::shared_ptr<DataType> &type, Place place) {
	const auto inside = place == Place::STORAGE_ONLY ? place : Place::NESTED;
	const auto child = [&](int i) { return Plain(type->field(i), inside); };
	switch (type->id()) {
	case Type::EXTENSION:
		return PlainType(static_cast<const arrow::ExtensionType &>(*type).storage_type(), inside);
	case Type::DICTIONARY: {
		auto &dictionary = static_cast<const arrow::DictionaryType &>(*type);
		return CanStay(*dictionary.value_type(), place) ? type : PlainType(dictionary.value_type(), inside);
	}
	case Type::RUN_END_ENCODED: {
		auto &runs = static_cast<const arrow::RunEndEncodedType &>(*type);
		return CanStay(*runs.value_type(), place) ? type : PlainType(runs.value_type(), inside);
	}
	case Type::LIST:
		return arrow::list(child(0));
	case Type::LIST_VIEW:
		return place == Place::STORAGE_ONLY ? arrow::list_view(child(0)) : arrow::list(child(0));
	case Type::LARGE_LIST:
		return arrow::large_list(child(0));
	case Type::LARGE_LIST_VIEW:
		return place == Place::STORAGE_ONLY ? arrow::large_list_view(child(0)) : arrow::large_list(child(0));
	case Type::FIXED_SIZE_LIST:
		return arrow::fixed_size_list(child(0), static_cast<const arrow::FixedSizeListType &>(*type).list_size());
	case Type::MAP: {
		auto &map = static_cast<const arrow::MapType &>(*type);
		return std::make_shared<arrow::MapType>(child(0), map.keys_sorted());
	}
	case Type::STRUCT:
	case Type::SPARSE_UNION:
	case Type::DENSE_UNION: {
		arrow::FieldVector fields;
		for (int i = 0; i < type->num_fields(); i++) {
			fields.push_back(child(i));
		}
		if (type->id() == Type::STRUCT) {
			return arrow::struct_(fields);
		}
		auto &codes = static_cast<const arrow::UnionType &>(*type).type_codes();
		return type->id() == Type::SPARSE_UNION ? arrow::sparse_union(fields, codes)
		                                        : arrow::dense_union(fields, codes);
	}
	default:
		return type;
	}
}

std::shared_ptr<Field> Plain(const std::shared_ptr<Field> &field, Place place) {
	auto result = field;
	if (field->type()->id() == Type::EXTENSION) {
		auto &extension = static_cast<const arrow::ExtensionType &>(*field->type());
		auto metadata = field->metadata() ? field->metadata()->Copy() : std::make_shared<arrow::KeyValueMetadata>();
		static_cast<void>(metadata->Set(EXTENSION_NAME, extension.extension_name()));
		static_cast<void>(metadata->Set(EXTENSION_METADATA, extension.Serialize()));
		result = field->WithMetadata(std::move(metadata));
	}
	const bool is_extension = result->metadata() && result->metadata()->Contains(EXTENSION_NAME);
	// DuckDB looks for an extension type at the values of a dictionary, never at its indices
	return result->WithType(PlainType(field->type(), is_extension && place == Place::TOP ? Place::NESTED : place));
}

Result<std::shared_ptr<arrow::Array>> Gather(const std::shared_ptr<arrow::Array> &values,
                                             const std::shared_ptr<arrow::Array> &indices, arrow::MemoryPool *pool) {
	arrow::compute::ExecContext context(pool);
	context.set_use_threads(false);
	return arrow::compute::Take(*values, *indices, arrow::compute::TakeOptions::NoBoundsCheck(), &context);
}

//! For each value of a column of runs the place of its run
template <class RUN_END>
Result<std::shared_ptr<arrow::Array>> RunOfEach(const arrow::RunEndEncodedArray &array, arrow::MemoryPool *pool) {
	arrow::Int64Builder builder(pool);
	ARROW_RETURN_NOT_OK(builder.Reserve(array.length()));
	auto ends = static_cast<const arrow::NumericArray<RUN_END> &>(*array.run_ends()).raw_values();
	int64_t run = array.FindPhysicalOffset();
	for (int64_t i = 0; i < array.length(); i++) {
		while (int64_t(ends[run]) <= array.offset() + i) {
			run++;
		}
		builder.UnsafeAppend(run);
	}
	return builder.Finish();
}

Result<std::shared_ptr<arrow::Array>> ExpandRuns(const std::shared_ptr<ArrayData> &data, arrow::MemoryPool *pool) {
	arrow::RunEndEncodedArray array(data);
	std::shared_ptr<arrow::Array> runs;
	switch (array.run_ends()->type_id()) {
	case Type::INT16: {
		ARROW_ASSIGN_OR_RAISE(runs, RunOfEach<arrow::Int16Type>(array, pool));
		break;
	}
	case Type::INT32: {
		ARROW_ASSIGN_OR_RAISE(runs, RunOfEach<arrow::Int32Type>(array, pool));
		break;
	}
	default: {
		ARROW_ASSIGN_OR_RAISE(runs, RunOfEach<arrow::Int64Type>(array, pool));
		break;
	}
	}
	return Gather(array.values(), runs, pool);
}

template <class VIEW, class LIST>
Result<std::shared_ptr<ArrayData>> ListOfView(const std::shared_ptr<ArrayData> &data, arrow::MemoryPool *pool) {
	VIEW view(data);
	int64_t values = 0;
	for (int64_t i = 0; i < view.length() && values <= MOST_VIEW_VALUES; i++) {
		values += view.IsNull(i) ? 0 : int64_t(view.value_length(i));
	}
	if (values > MOST_VIEW_VALUES) {
		return Status::Invalid("the list views of a batch hold more than ", MOST_VIEW_VALUES, " values");
	}
	ARROW_ASSIGN_OR_RAISE(auto list, LIST::FromListView(view, pool));
	return list->data();
}

//! Counts what the file only claims: DuckDB skips a validity mask where a count says 0
void CountNulls(ArrayData &data) {
	if (data.type->id() == Type::NA) {
		data.null_count = data.length;
	} else if (arrow::internal::may_have_validity_bitmap(data.type->id())) {
		data.null_count = arrow::kUnknownNullCount;
		data.GetNullCount();
	} else {
		data.null_count = 0;
	}
	for (auto &child : data.child_data) {
		CountNulls(*child);
	}
	if (data.dictionary) {
		CountNulls(*data.dictionary);
	}
}

Result<std::shared_ptr<ArrayData>> PlainData(std::shared_ptr<ArrayData> data, const std::shared_ptr<DataType> &plain,
                                             arrow::MemoryPool *pool) {
	if (data->type->id() == Type::EXTENSION) {
		data = data->Copy();
		data->type = static_cast<const arrow::ExtensionType &>(*data->type).storage_type();
		return PlainData(std::move(data), plain, pool);
	}
	if (data->type->id() == Type::DICTIONARY && plain->id() != Type::DICTIONARY) {
		auto indices = data->Copy();
		indices->type = static_cast<const arrow::DictionaryType &>(*data->type).index_type();
		indices->dictionary = nullptr;
		ARROW_ASSIGN_OR_RAISE(auto values, Gather(arrow::MakeArray(data->dictionary), arrow::MakeArray(indices), pool));
		return PlainData(values->data(), plain, pool);
	}
	if (data->type->id() == Type::RUN_END_ENCODED && plain->id() != Type::RUN_END_ENCODED) {
		ARROW_ASSIGN_OR_RAISE(auto values, ExpandRuns(data, pool));
		return PlainData(values->data(), plain, pool);
	}
	if (data->type->id() == Type::LIST_VIEW) {
		ARROW_ASSIGN_OR_RAISE(auto list, (ListOfView<arrow::ListViewArray, arrow::ListArray>(data, pool)));
		return PlainData(std::move(list), plain, pool);
	}
	if (data->type->id() == Type::LARGE_LIST_VIEW) {
		ARROW_ASSIGN_OR_RAISE(auto list, (ListOfView<arrow::LargeListViewArray, arrow::LargeListArray>(data, pool)));
		return PlainData(std::move(list), plain, pool);
	}
	data = data->Copy();
	data->type = plain;
	if (plain->id() != Type::DICTIONARY && plain->id() != Type::RUN_END_ENCODED) {
		for (size_t i = 0; i < data->child_data.size(); i++) {
			ARROW_ASSIGN_OR_RAISE(data->child_data[i],
			                      PlainData(data->child_data[i], plain->field(int(i))->type(), pool));
		}
	} else {
		for (auto &child : data->child_data) {
			child = child->Copy();
		}
		if (data->dictionary) {
			data->dictionary = data->dictionary->Copy();
		}
	}
	return data;
}

} // namespace

std::shared_ptr<Field> PlainField(const std::shared_ptr<Field> &field) {
	return Plain(field, Place::TOP);
}

std::shared_ptr<Field> StorageField(const std::shared_ptr<Field> &field) {
	return Plain(field, Place::STORAGE_ONLY);
}

Result<std::shared_ptr<arrow::Array>> PlainArray(const std::shared_ptr<arrow::Array> &array, const Field &plain,
                                                 arrow::MemoryPool *pool) {
	ARROW_ASSIGN_OR_RAISE(auto data, PlainData(array->data(), plain.type(), pool));
	CountNulls(*data);
	return arrow::MakeArray(data);
}

} // namespace vibespatial
