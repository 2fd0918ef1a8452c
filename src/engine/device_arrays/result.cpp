#include "engine/device_arrays/result.hpp"

namespace vibespatial {

namespace {

//! What a struct of Arrow points at
template <class ARROW>
struct Held {
	std::vector<ARROW> children;
	std::vector<ARROW *> child_pointers;

	explicit Held(size_t count) : children(count), child_pointers(count) {
		for (size_t i = 0; i < count; i++) {
			children[i] = ARROW {};
			child_pointers[i] = &children[i];
		}
	}
	//! Those that nobody has moved away
	~Held() {
		for (auto &child : children) {
			if (child.release) {
				child.release(&child);
			}
		}
	}
	Held(const Held &) = delete;
	Held &operator=(const Held &) = delete;
};

struct HeldArray : Held<ArrowArray> {
	explicit HeldArray(const DeviceColumn &column) : Held(column.children.size()), buffers(column.buffers) {
		for (auto &buffer : buffers) {
			pointers.push_back(buffer.get());
		}
	}

	const std::vector<std::shared_ptr<void>> buffers;
	std::vector<const void *> pointers;
};

struct HeldSchema : Held<ArrowSchema> {
	explicit HeldSchema(const ArrowLayout &layout)
	    : Held(layout.children.size()), format(layout.format), name(layout.name), metadata(layout.MetadataBytes()) {
	}

	const std::string format;
	const std::string name;
	const std::string metadata;
};

template <class ARROW, class HELD>
void Release(ARROW *released) {
	delete static_cast<HELD *>(released->private_data);
	released->private_data = nullptr;
	released->release = nullptr;
}

void ExportArray(const DeviceColumn &column, ArrowArray &array) {
	auto held = std::make_unique<HeldArray>(column);
	for (size_t i = 0; i < column.children.size(); i++) {
		ExportArray(column.children[i], held->children[i]);
	}
	array = ArrowArray {};
	array.length = column.length;
	array.null_count = column.null_count;
	array.n_buffers = static_cast<int64_t>(held->pointers.size());
	array.buffers = held->pointers.data();
	array.n_children = static_cast<int64_t>(held->children.size());
	array.children = held->child_pointers.data();
	array.release = Release<ArrowArray, HeldArray>;
	array.private_data = held.release();
}

void ExportSchema(const ArrowLayout &layout, ArrowSchema &schema) {
	auto held = std::make_unique<HeldSchema>(layout);
	for (size_t i = 0; i < layout.children.size(); i++) {
		ExportSchema(layout.children[i], held->children[i]);
	}
	schema = ArrowSchema {};
	schema.format = held->format.c_str();
	schema.name = held->name.c_str();
	schema.metadata = held->metadata.empty() ? nullptr : held->metadata.data();
	schema.flags = layout.flags;
	schema.n_children = static_cast<int64_t>(held->children.size());
	schema.children = held->child_pointers.data();
	schema.release = Release<ArrowSchema, HeldSchema>;
	schema.private_data = held.release();
}

} // namespace

void DeviceResult::Export(ArrowDeviceArray &array) const {
	array = ArrowDeviceArray {};
	ExportArray(rows, array.array);
	array.device_id = device.number;
	array.device_type = device.type;
}

void DeviceResult::Export(ArrowSchema &schema) const {
	ExportSchema(layout, schema);
}

} // namespace vibespatial
