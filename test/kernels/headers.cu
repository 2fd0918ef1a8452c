// Instantiates the whole geometry core in device code: that NVRTC compiles it is the test (test_nvrtc.py).
#include "vibe/distance.h"
#include "vibe/measure.h"
#include "vibe/relate.h"

//! Memory of one thread
template <class T>
struct FixedArray {
	static constexpr vibe::u32 CAPACITY = 16;
	T items[CAPACITY];
	vibe::u32 size;

	VIBE_HD void Push(const T &item) {
		if (size < CAPACITY) {
			items[size++] = item;
		}
	}
	VIBE_HD vibe::u32 Size() const {
		return size;
	}
	VIBE_HD T &operator[](vibe::u32 i) {
		return items[i];
	}
	VIBE_HD const T &operator[](vibe::u32 i) const {
		return items[i];
	}
	VIBE_HD void Clear() {
		size = 0;
	}
	VIBE_HD void Resize(vibe::u32 n) {
		size = n < CAPACITY ? n : CAPACITY;
	}
};

extern "C" __global__ void orient2d(const double *xy, int *sign, unsigned n) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) {
		const double *p = xy + 6 * i;
		sign[i] = vibe::Orient2d(p[0], p[1], p[2], p[3], p[4], p[5]);
	}
}

extern "C" __global__ void relate(const vibe::ShapeView *shapes, vibe::Matrix *matrix, bool *holds, unsigned n) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) {
		vibe::RelateWork<FixedArray> work;
		const vibe::ShapeView &a = shapes[2 * i], &b = shapes[2 * i + 1];
		auto target = vibe::TargetOf(vibe::PREDICATE_WITHIN, a.dimension, b.dimension);
		matrix[i] = vibe::Relater<FixedArray>(a, b, target, work).Run();
		holds[i] = vibe::Holds(vibe::PREDICATE_WITHIN, matrix[i], a.dimension, b.dimension);
	}
}

extern "C" __global__ void distance(const vibe::ShapeView *shapes, double *result, unsigned n) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) {
		result[i] = vibe::ShapeDistance(shapes[2 * i], shapes[2 * i + 1], -1.0);
	}
}

extern "C" __global__ void ring_area(const double *x, const double *y, const unsigned *start, double *result,
                                     unsigned n) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) {
		result[i] = vibe::RingArea2(vibe::ColumnRing {x + start[i], y + start[i]}, start[i + 1] - start[i]) / 2;
	}
}
