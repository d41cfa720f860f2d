// core_test_prelude.h for what serves or calls: with gRPC.
#include "grpcpp/grpcpp.h"
#include "tools/build_defs/core_test_prelude.h"
