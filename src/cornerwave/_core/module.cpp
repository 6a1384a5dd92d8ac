// The compiled core, one module for each instruction set: NAME is _portable, _avx2 or _avx512.

#include "border.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <string>
#include <vector>

namespace cornerwave {

void bind_white_noise(nb::module_ &);
void bind_copies(nb::module_ &);
void bind_persons(nb::module_ &);
void bind_refresh(nb::module_ &);
void bind_hashes(nb::module_ &);
void bind_exact_sums(nb::module_ &);
void bind_exact_covariance(nb::module_ &);
void bind_matrices(nb::module_ &);
void bind_sketches(nb::module_ &);
void bind_columns(nb::module_ &);
void bind_text(nb::module_ &);
void bind_row_checks(nb::module_ &);

#ifdef __x86_64__
// The rest of x86-64-v3, which not all compilers know by name: F16C and MOVBE, and LZCNT, which a
// processor without it takes for another instruction.
static bool has_further() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) && (c & bit_MOVBE) &&
         __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & bit_LZCNT);
}
#endif

// The modules that this processor and its operating system can run, the quickest last.
static std::vector<std::string> runnable() {
  std::vector<std::string> names{"_portable"};
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
      __builtin_cpu_supports("popcnt") && has_further()) {
    names.push_back("_avx2");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
      names.push_back("_avx512");
  }
#endif
  return names;
}

} // namespace cornerwave

NB_MODULE(NAME, module) {
  using namespace cornerwave;
  module.def("runnable", runnable);
  bind_white_noise(module);
  bind_copies(module);
  bind_persons(module);
  bind_refresh(module);
  bind_hashes(module);
  bind_exact_sums(module);
  bind_exact_covariance(module);
  bind_matrices(module);
  bind_sketches(module);
  bind_columns(module);
  bind_text(module);
  bind_row_checks(module);
}
