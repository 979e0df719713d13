// Every reader of foreign texts by a name, with what is done with what it has read whatever
// the flags.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim::testing {

struct Reader {
  std::string_view name;
  std::function<void(const std::string& text)> read;  // throws Error
};

const std::vector<Reader>& readers();

// Throws std::out_of_range if there is none.
const Reader& find_reader(std::string_view name);

}  // namespace pipesim::testing
