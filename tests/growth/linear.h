// Twice the input takes twice the work, and memory is a multiple of the input.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "tests/growth/work.h"

namespace pipesim::testing {

// A text with n of something, or of n bytes, from n on.
struct Growing {
  std::string what;
  std::function<std::string(int n)> text;
  int n = 1000;
};

// The same of a text with parts that are repeated, see template.h.
Growing growing(std::string what, std::string text_template, int n = 1000);

struct Growth {
  std::string fault;      // what grows too fast, with figures; or empty
  std::string refusal;    // what the call threw, if it did, with the last text
  std::size_t bytes = 0;  // of the last text
  Work work;              // with it
};

// Calls with the text of n, 2n, 4n and so on, of half as many where tests are not thorough, until
// it is plain how steps grow. How much more the second doubling adds than the first is 2 times for
// n, at most 2.2 times for n log n, and 4 times for n^2, which shows late where n has the larger
// factor: from 2.25 times on, it is doubled again. Memory at once may be `most_bytes` for each byte
// of the text and 1 MiB. Texts of more than `max_text` bytes are not tried. What the call may
// throw is an Error.
Growth growth_of(const Growing& input, double most_bytes, std::size_t max_text,
                 const std::function<void(const std::string& text)>& call);

}  // namespace pipesim::testing
