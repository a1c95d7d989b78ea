// Bounds-checked reading of flatbuffers of unknown origin: every access is verified, nothing
// recurses. Throws FlatbufferError with one line; the caller says which file it is.
//
// Not the library's own verifier: its C++ headers are in no package that a build from PyPI or npm
// could ask for (flatbuffers 25.12.19 and 25.9.23 there hold Python and JavaScript only), and for
// one schema without generated code the fields would be listed twice, to be verified and read.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "span.h"

namespace rk3588 {

class FlatbufferError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A buffer and checked loads from it. Positions are byte offsets from its start.
class FlatBytes {
 public:
  explicit FlatBytes(Span<const uint8_t> bytes) : bytes_(bytes) {}

  size_t size() const { return bytes_.size(); }

  template <typename T>
  T load(size_t position) const {
    static_assert(std::is_arithmetic_v<T>);
    check(position, sizeof(T), alignof(T));
    T value;
    std::memcpy(&value, bytes_.data() + position, sizeof(T));
    return value;
  }

  Span<const uint8_t> slice(size_t position, size_t count) const {
    check(position, count, 1);
    return bytes_.subspan(position, count);
  }

  // Position that the unsigned forward offset at `position` points to.
  size_t follow(size_t position) const {
    const size_t offset = load<uint32_t>(position);
    if (offset == 0) throw FlatbufferError("null offset");
    check(position, offset, 1);
    return position + offset;
  }

 private:
  void check(size_t position, size_t count, size_t alignment) const {
    if (position > bytes_.size() || count > bytes_.size() - position) {
      throw FlatbufferError("offset " + std::to_string(position) + " + " + std::to_string(count) +
                            " lies outside its " + std::to_string(bytes_.size()) + " bytes");
    }
    if (position % alignment != 0) {
      throw FlatbufferError("offset " + std::to_string(position) + " is not aligned to " +
                            std::to_string(alignment));
    }
  }

  Span<const uint8_t> bytes_;
};

// A vector of `count` elements of fixed size; elements are read one by one.
class FlatVector {
 public:
  FlatVector() = default;
  FlatVector(const FlatBytes* bytes, size_t position, size_t element_size, size_t alignment)
      : bytes_(bytes), element_size_(element_size) {
    count_ = bytes->load<uint32_t>(position);
    first_ = position + sizeof(uint32_t);
    if (first_ % alignment != 0) throw FlatbufferError("misaligned vector");
    if (count_ > (bytes->size() - first_) / element_size) {
      throw FlatbufferError("vector of " + std::to_string(count_) + " elements lies outside");
    }
  }

  size_t size() const { return count_; }
  size_t position(size_t index) const { return first_ + index * element_size_; }
  template <typename T>
  T load(size_t index, size_t offset_in_element = 0) const {
    return bytes_->load<T>(position(index) + offset_in_element);
  }
  Span<const uint8_t> bytes() const {
    if (bytes_ == nullptr) return {};
    return bytes_->slice(first_, count_ * element_size_);
  }

 private:
  const FlatBytes* bytes_ = nullptr;
  size_t first_ = 0;
  size_t count_ = 0;
  size_t element_size_ = 1;
};

// A table. Absent fields give their default, as the format says.
class FlatTable {
 public:
  FlatTable(const FlatBytes* bytes, size_t position) : bytes_(bytes), position_(position) {
    const int64_t vtable =
        static_cast<int64_t>(position) - static_cast<int64_t>(bytes->load<int32_t>(position));
    if (vtable < 0 || static_cast<uint64_t>(vtable) > bytes->size()) {
      throw FlatbufferError("table layout lies outside");
    }
    vtable_ = static_cast<size_t>(vtable);
    vtable_bytes_ = bytes->load<uint16_t>(vtable_);
    table_bytes_ = bytes->load<uint16_t>(vtable_ + 2);
    if (vtable_bytes_ < 4 || vtable_bytes_ % 2 != 0 || table_bytes_ < 4) {
      throw FlatbufferError("table layout is malformed");
    }
    bytes->slice(vtable_, vtable_bytes_);
    bytes->slice(position_, table_bytes_);
  }

  // Position of field `id` of `field_bytes` bytes, or 0 if it is absent.
  size_t field(unsigned id, size_t field_bytes) const {
    const size_t slot = 4 + 2 * static_cast<size_t>(id);
    if (slot + 2 > vtable_bytes_) return 0;
    const size_t offset = bytes_->load<uint16_t>(vtable_ + slot);
    if (offset == 0) return 0;
    if (offset < 4 || offset + field_bytes > table_bytes_) {
      throw FlatbufferError("field " + std::to_string(id) + " lies outside its table");
    }
    return position_ + offset;
  }

  template <typename T>
  T scalar(unsigned id, T fallback = T{}) const {
    const size_t position = field(id, sizeof(T));
    return position == 0 ? fallback : bytes_->load<T>(position);
  }

  FlatVector vector(unsigned id, size_t element_size, size_t alignment) const {
    const size_t position = field(id, sizeof(uint32_t));
    if (position == 0) return {};
    return FlatVector(bytes_, bytes_->follow(position), element_size, alignment);
  }

  FlatVector tables(unsigned id) const { return vector(id, sizeof(uint32_t), sizeof(uint32_t)); }

  FlatTable table(const FlatVector& tables, size_t index) const {
    return FlatTable(bytes_, bytes_->follow(tables.position(index)));
  }

  std::string_view string(unsigned id) const {
    const Span<const uint8_t> text = vector(id, 1, 1).bytes();
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

 private:
  const FlatBytes* bytes_;
  size_t position_;
  size_t vtable_;
  size_t vtable_bytes_;
  size_t table_bytes_;
};

}  // namespace rk3588
