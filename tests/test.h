// The prelude of every test that uses LibTorch: torch first, Catch2 after it, since both define
// CHECK and the tests want Catch2's.
// Without a guard, as tests/catch.h.

#include <torch/torch.h>

#include "tests/catch.h"
