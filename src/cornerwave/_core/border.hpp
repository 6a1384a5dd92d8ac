// The border between Python and the kernels: what arrays may come in, and how they are looked at.
//
// Arrays are typed, have a number of dimensions and are C-contiguous; anything else is a TypeError,
// and nothing is converted or copied. Shapes that do not fit each other are a ValueError. Python's
// lock is free while a kernel runs.

#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>
#include <type_traits>

namespace cornerwave {

namespace nb = nanobind;

using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u64 = std::uint64_t;

// An array that is read has elements of type const T; one without const is written, too.
template <class T> using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Cube = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

template <class A> i64 size_of(const A &array, std::size_t axis = 0) {
  return static_cast<i64>(array.shape(axis));
}

// A matrix without its owner: rows one after the other.
template <class T> struct Rows {
  T *data;
  i64 count, size;

  Rows(T *data, i64 count, i64 size) : data(data), count(count), size(size) {}
  template <class A>
  Rows(const A &array) : Rows(array.data(), size_of(array, 0), size_of(array, 1)) {}

  T *operator[](i64 row) const { return data + row * size; }
  T &operator()(i64 row, i64 column) const { return data[row * size + column]; }
};

// Throw ValueError unless arguments fit each other. The text names them, never what they hold.
inline void require(bool fits, const char *otherwise) {
  if (!fits) throw std::invalid_argument(otherwise);
}

// Throw ValueError unless a part that begins at `start` lies within the whole.
inline void require_part(i64 start, i64 size, i64 whole, const char *otherwise) {
  require(0 <= start && size <= whole && start <= whole - size, otherwise); // sums may overflow
}

// Throw ValueError unless all of some numbers are places among `count`, from `least` on.
template <class T> void require_places(const Vector<const T> &places, i64 count, i64 least = 0) {
  const T *__restrict place = places.data();
  const i64 size = size_of(places);
  u64 beyond = 0; // without a branch
  for (i64 i = 0; i < size; i++)
    beyond |= static_cast<u64>(place[i]) - static_cast<u64>(least) >= static_cast<u64>(count - least);
  require(!beyond, "places lie within what they are places of");
}

// Throw ValueError unless what is filled in lies where its type may lie: stores around the cache
// need that. What is read may lie anywhere: Arrow does not promise more.
template <class A> void require_aligned(const A &) {}
template <class T, class... Rest> void require_aligned(const nb::ndarray<T, Rest...> &array) {
  require(std::is_const_v<T> || reinterpret_cast<std::uintptr_t>(array.data()) % alignof(T) == 0,
          "what is filled in is aligned in memory");
}

// Add to a count that came from outside: one that was unsound wraps around.
inline void add_to(i64 &count, i64 more) {
  count = static_cast<i64>(static_cast<u64>(count) + static_cast<u64>(more));
}

// Make a kernel a function of the module: every argument by its name, none converted.
template <class R, class... Args, class... Names>
void bind(nb::module_ &module, const char *name, R (*kernel)(Args...), Names... names) {
  static_assert(sizeof...(Args) == sizeof...(Names), "every argument has a name");
  module.def(
      name,
      [kernel](Args... args) -> R {
        nb::gil_scoped_release unlocked;
        (require_aligned(args), ...);
        return kernel(args...);
      },
      nb::arg(names).noconvert()...);
}

} // namespace cornerwave
