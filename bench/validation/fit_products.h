// Fits how matrix products depend on their shape, on every second row of a
// table of one card. Pure; any thread.
#pragma once

#include <string>

namespace pipesim::validation {

// What was found, and the errors on fitted and unseen rows, as text. `folder`
// holds the table.
std::string fit_products(const std::string& folder);

}  // namespace pipesim::validation
