// Loops of TensorFlow 1 for tests, as its client's while_loop makes them.
#ifndef TANDEM_CORE_GRAPH_TEST_LOOP_H_
#define TANDEM_CORE_GRAPH_TEST_LOOP_H_

#include <functional>
#include <string>
#include <vector>

#include "core/graph/scope.h"

namespace tandem::testing {

// Adds values = start; while (condition(values)) values = body(values), and returns what comes out.
// What the loop itself consists of is made with `scope` and named below it; only what enters waits
// for the scope's control dependencies. Errors are the scope's; the result is then empty.
std::vector<Output> AddLoop(
    const Scope& scope, const std::string& frame, const std::vector<Output>& start,
    const std::function<Output(const std::vector<Output>&)>& condition,
    const std::function<std::vector<Output>(const std::vector<Output>&)>& body,
    int parallel_iterations = 10);

// A value from outside that all rounds of the loop see.
Output EnterLoop(const Scope& scope, const std::string& frame, const Output& value,
                 int parallel_iterations = 10);

}  // namespace tandem::testing

#endif  // TANDEM_CORE_GRAPH_TEST_LOOP_H_
