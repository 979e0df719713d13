#include "traces/draw/colours.h"

#include <algorithm>
#include <array>

namespace pipesim {
namespace {

constexpr int channel(Rgb colour, int shift) { return static_cast<int>(colour >> shift & 0xff); }

constexpr int terminal_colours = 256;
constexpr int first_of_cube = 16;  // the lower ones are configurable
constexpr int first_grey = 232;
constexpr std::array<int, 6> cube_steps{0, 95, 135, 175, 215, 255};

// xterm's colours.
Rgb of_terminal(int index) {
  std::array<int, 3> parts{};
  if (index >= first_grey) {
    parts.fill(8 + 10 * (index - first_grey));
  } else {
    const int place = index - first_of_cube;
    const std::array<int, 3> steps{place / 36, place / 6 % 6, place % 6};
    std::ranges::transform(steps, parts.begin(),
                           [](int step) { return cube_steps[static_cast<std::size_t>(step)]; });
  }
  return static_cast<Rgb>(parts[0] << 16 | parts[1] << 8 | parts[2]);
}

int nearest_of_terminal(Rgb colour) {
  const auto distance = [colour](int index) {
    int sum = 0;
    for (const int shift : {16, 8, 0}) {
      const int apart = channel(colour, shift) - channel(of_terminal(index), shift);
      sum += apart * apart;
    }
    return sum;
  };
  int nearest = first_of_cube;
  for (int index = first_of_cube; index < terminal_colours; ++index) {
    if (distance(index) < distance(nearest)) nearest = index;
  }
  return nearest;
}

}  // namespace

Colour lighter(const Colour& colour, int chunk, int chunks) {
  if (chunk <= 0 || chunks <= 1) return colour;
  const int share = 128 * std::min(chunk, chunks - 1) / (chunks - 1);
  Colour made{mix(colour.light, colours::paper.light, share),
              mix(colour.dark, colours::paper.dark, share)};
  if (colour.terminal >= 0) made.terminal = nearest_of_terminal(made.light);
  return made;
}

Rgb mix(Rgb first, Rgb second, int share) {
  Rgb mixed = 0;
  for (const int shift : {16, 8, 0}) {
    const int from = channel(first, shift);
    const int value = from + (channel(second, shift) - from) * share / 256;
    mixed |= static_cast<Rgb>(value) << shift;
  }
  return mixed;
}

bool is_light(Rgb colour) {
  const auto squared = [colour](int shift) {
    return channel(colour, shift) * channel(colour, shift);
  };
  // Approximate luminance; 0.2 has the same contrast with black and white.
  return 2126 * squared(16) + 7152 * squared(8) + 722 * squared(0) > 2000 * 255 * 255;
}

}  // namespace pipesim
