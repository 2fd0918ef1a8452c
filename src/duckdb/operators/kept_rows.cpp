#include "duckdb/operators/kept_rows.hpp"

namespace duckdb {

void KeptRows::Add(DataChunk &input, idx_t begin, idx_t size, idx_t at) {
	while (size > 0) {
		auto number = at / STANDARD_VECTOR_SIZE, offset = at % STANDARD_VECTOR_SIZE;
		if (number == chunks.size()) {
			auto chunk = make_uniq<DataChunk>();
			chunk->Initialize(Allocator::Get(context), input.GetTypes(), columns);
			chunks.push_back(std::move(chunk));
			for (idx_t column = 0; column < input.ColumnCount(); column++) {
				auto width = GetTypeIdSize(input.data[column].GetType().InternalType());
				vector_bytes += columns[column] ? STANDARD_VECTOR_SIZE * width : 0;
			}
		}
		auto &chunk = *chunks[number];
		auto some = MinValue<idx_t>(size, STANDARD_VECTOR_SIZE - offset);
		for (idx_t column = 0; column < input.ColumnCount(); column++) {
			if (columns[column]) {
				VectorOperations::Copy(input.data[column], chunk.data[column], begin + some, begin, offset);
				CountStrings(chunk.data[column], offset, offset + some);
			}
		}
		SetRowCount(chunk, offset + some);
		at += some;
		begin += some;
		size -= some;
	}
}

void KeptRows::CountStrings(Vector &column, idx_t begin, idx_t end) {
	if (column.GetType().InternalType() != PhysicalType::VARCHAR) {
		return;
	}
	auto strings = FlatVector::GetData<string_t>(column);
	auto &validity = FlatVector::Validity(column);
	for (auto i = begin; i < end; i++) {
		string_bytes += validity.RowIsValid(i) && !strings[i].IsInlined() ? strings[i].GetSize() : 0;
	}
}

void KeptRows::Clear() {
	for (auto &chunk : chunks) {
		chunk->Reset();
	}
	string_bytes = 0;
}

} // namespace duckdb
