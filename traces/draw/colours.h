// The colours of pictures of a run, the same in the terminal, on a page and in the viewer;
// after Okabe and Ito, whose palette is safe for colour-blind readers.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>

namespace pipesim {

using Rgb = std::uint32_t;  // 0xRRGGBB

// On a light and on a dark background; and the nearest of a terminal's 256
// colours.
struct Colour {
  Rgb light = 0;
  Rgb dark = 0;
  int terminal = -1;
};

namespace colours {

inline constexpr Colour forward{0x0072b2, 0x2b8fce, 25};
inline constexpr Colour backward{0xe69f00, 0xe69f00, 214};  // and input gradients
inline constexpr Colour weight_gradient{0x009e73, 0x00a67a, 36};
inline constexpr Colour other{0xcc79a7, 0xc876a4, 175};
inline constexpr Colour neutral{0x9a9a9a, 0x858585, 240};

inline constexpr Colour late{0xd55e00, 0xe8752a};
inline constexpr Colour early{0x0072b2, 0x2b8fce};

inline constexpr Colour ink{0x1c1c1c, 0xe8e8e6};
inline constexpr Colour paper{0xffffff, 0x161618};

}  // namespace colours

// A rank's first chunk has the full colour, later ones more and more of the background's,
// the last half of it.
Colour lighter(const Colour& colour, int chunk, int chunks);

// Mixes two colours, with `share` of 256 of the second.
Rgb mix(Rgb first, Rgb second, int share);
// Whether dark text is better read on it than light text.
bool is_light(Rgb colour);

}  // namespace pipesim
