// A list of whole numbers as Python writes it, with sums and multiples: "([0]*3+[1]*58)".
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

// Throws an input error that says what is expected, and where.
std::vector<int> parse_number_list(std::string_view text);
// As short as runs of equal numbers make it: "[0]*3+[1]*58".
std::string number_list_text(const std::vector<int>& list);

}  // namespace pipesim
