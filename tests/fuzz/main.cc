#include "tests/fuzz/driver.h"

int main(int argc, char** argv) { return tandem::RunFuzzTarget(argc, argv); }
