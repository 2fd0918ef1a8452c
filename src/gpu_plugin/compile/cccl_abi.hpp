//===----------------------------------------------------------------------===//
// gpu_plugin/compile/cccl_abi.hpp
//
// The C interface of libcccl.c.parallel as cuda-cccl 1.2.1 has it, of which only the library is installed. It is
// experimental and carries no version, so Libraries takes that one library and no other.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace vibespatial {
namespace cccl {

enum Type : int32_t { INT32 = 2, INT64 = 3, UINT64 = 7, FLOAT64 = 10 };
enum OpKind : int32_t { STATELESS = 0, PLUS = 2, EQUAL_TO = 7, LESS = 10, MINIMUM = 22, MAXIMUM = 23 };
enum CodeKind : int32_t { CODE_LTOIR = 0, CODE_CPP = 1 };

struct TypeInfo {
	size_t size;
	size_t alignment;
	int32_t type;
};
struct Op {
	int32_t type;
	const char *name;
	const char *code;
	size_t code_size;
	int32_t code_type;
	size_t size;
	size_t alignment;
	void *state;
	const char **extra_ltoirs;
	size_t *extra_ltoir_sizes;
	size_t extra_ltoir_count;
	int32_t *extra_code_types;
};
struct Value {
	TypeInfo type;
	void *state;
};
//! Only pointers are used here
struct Iterator {
	size_t size;
	size_t alignment;
	int32_t type;
	Op advance;
	Op dereference;
	TypeInfo value_type;
	void *state;
	void *host_advance;
};
struct BuildConfig {
	const char **flags;
	size_t flag_count;
	const char **include_folders;
	size_t include_folder_count;
};
static_assert(sizeof(TypeInfo) == 24 && sizeof(Op) == 96 && sizeof(Value) == 32 && sizeof(Iterator) == 256,
              "the layout of libcccl.c.parallel");

//! What an algorithm compiles to, as bytes: nothing in it is looked at here, but for how all of them begin
struct BuildHead {
	int32_t capability;
	void *cubin;
	size_t cubin_size;
	int32_t kind;
	//! Once it was loaded
	void *library;
};
template <size_t SIZE>
struct BuildResult {
	alignas(8) unsigned char bytes[SIZE];
};
using ScanBuild = BuildResult<184>;
using ReduceBuild = BuildResult<120>;
using SegmentedReduceBuild = BuildResult<80>;
using PartitionBuild = BuildResult<88>;
using SearchBuild = BuildResult<104>;
using RadixSortBuild = BuildResult<288>;
using MergeSortBuild = BuildResult<152>;
using UniqueBuild = BuildResult<104>;
//! At least as large as all of them
using AnyBuild = BuildResult<512>;

inline TypeInfo InfoOf(Type type) {
	const size_t size = type == INT32 ? 4 : 8;
	return TypeInfo {size, size, type};
}
inline Op Known(OpKind kind) {
	Op op {};
	op.type = kind;
	return op;
}
inline Iterator Pointer(Type type, const void *at) {
	Iterator iterator {};
	iterator.value_type = InfoOf(type);
	iterator.size = iterator.value_type.size;
	iterator.alignment = iterator.value_type.alignment;
	iterator.state = const_cast<void *>(at);
	return iterator;
}
//! i32, i64, u64, f64
Type TypeOf(const char *name);

} // namespace cccl
} // namespace vibespatial
