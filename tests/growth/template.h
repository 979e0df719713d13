// Small texts for large inputs: a part of a text that is written many times.
//
//   <ITEM>      ITEM n times
//   <ITEM|SEP>  the same with SEP in between
//   #           in an ITEM the number of the copy, from 0; elsewhere itself
//
// Parts don't nest, since the text would grow by n^2: a `<` in an ITEM is itself.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pipesim::testing {

std::string grown(std::string_view text, int n);

// About how many bytes more there are for each n.
std::size_t bytes_of_each(std::string_view text);

}  // namespace pipesim::testing
