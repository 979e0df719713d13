#include "gui/layout/palette.h"

#include <algorithm>

#include "traces/draw/colours.h"

namespace pipesim::gui {
namespace {

using Eight = std::array<Rgb, 8>;

// F, I, W, B; then what is less loud than they are.
constexpr std::array<Colour, 8> kind_colours{
    colours::forward,     colours::backward,    colours::weight_gradient, {0xdb8500, 0xd98200},
    {0x8a9ba8, 0x71828f}, {0xb0a090, 0x8f8072}, {0x9a8cc2, 0x8d80bb},     colours::other};

constexpr Eight microbatches{0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7,
                             0x56b4e9, 0xd55e00, 0xd9cb2f, 0x7a68b3};
constexpr Eight light_errors{0x1c5fa8, 0x5b9bd1, 0xaacde8, 0xc6c6c0,
                             0xf6bd9b, 0xe4774f, 0xb3182b, 0x8a63a8};
constexpr Eight dark_errors{0x3f8fe0, 0x3b73ab, 0x35597a, 0x5c5c58,
                            0x8a5239, 0xc65a35, 0xf04a45, 0xa57fc4};

}  // namespace

Palette palette(Theme theme, Colouring colouring) {
  const bool light = theme == Theme::light;
  const auto of = [light](Rgb in_light, Rgb in_dark) { return light ? in_light : in_dark; };
  const auto shared = [&of](const Colour& colour) { return of(colour.light, colour.dark); };
  Palette made;
  switch (colouring) {
    case Colouring::kind: std::ranges::transform(kind_colours, made.shades.begin(), shared); break;
    case Colouring::microbatch: std::ranges::copy(microbatches, made.shades.begin()); break;
    case Colouring::error:
      std::ranges::copy(light ? light_errors : dark_errors, made.shades.begin());
  }
  for (Shade shade = first_lighter_shade; shade < shade_count; ++shade) {
    const int step = 1 + (shade - first_lighter_shade) / 4;
    made.shades[shade] = shared(lighter(kind_colours[full_shade(shade)], step, lighter_steps + 1));
  }
  made.shades[first_bubble_shade] = of(0xd6e8f5, 0x20323f);
  made.shades[first_bubble_shade + 1] = of(0xf8d9d3, 0x41282a);
  made.shades[first_bubble_shade + 2] = of(0xe6dbf0, 0x342c42);
  made.shades[first_bubble_shade + 3] = of(0xeee7c6, 0x38351f);
  made.shades[critical_shade] = of(0xb0003a, 0xff4f86);
  made.shades[late_shade] = shared(colours::late);
  made.shades[early_shade] = shared(colours::early);
  made.shades[15] = shared(colours::neutral);
  made.shades[wait_shade] = of(0xdcdcd6, 0x3a3a3e);
  made.background = shared(colours::paper);
  made.band = of(0xf6f6f3, 0x1d1d20);
  made.gutter = of(0xefefec, 0x232327);
  made.grid = of(0xe2e2dd, 0x303035);
  made.text = shared(colours::ink);
  made.faint_text = of(0x5c5c5c, 0xa6a6a2);
  made.on_bar = 0x111111;
  made.on_dark_bar = 0xffffff;
  made.selection = of(0x111111, 0xffffff);
  made.area = of(0x3b82c4, 0x5fa8e6);
  made.arrow = of(0x6a6a6a, 0x9a9a9a);
  made.capacity = of(0xb0003a, 0xff4f86);
  made.mark = of(0x00796b, 0x4dd0b8);
  made.predicted = of(0x5b6f8c, 0x9db2d0);
  made.measured = of(0x8a3a0a, 0xf2a673);
  return made;
}

}  // namespace pipesim::gui
