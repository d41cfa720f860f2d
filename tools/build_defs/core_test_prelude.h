// core_prelude.h for tests: with GoogleTest.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/build_defs/core_prelude.h"
