// Small multiples in characters.
#include "traces/print/small_multiples.h"

#include <algorithm>
#include <numeric>

#include "traces/base/text.h"
#include "traces/print/picture.h"

namespace pipesim {

std::string small_multiples(const TimelineGroup& group, const Terminal& terminal) {
  std::int64_t longest_ns = 0;
  std::int64_t unit_ns = 0;
  std::size_t longest_list = 0;
  for (const TimelinePanel& panel : group.panels) {
    longest_ns = std::max(longest_ns, panel.makespan_ns);
    longest_list = std::max(longest_list, std::ranges::max(panel.actions_of_rank));
    panel.replay([&](const Span& span) {
      if (!is_communication(span.action)) {
        unit_ns = std::gcd(unit_ns, std::gcd(span.start_ns, span.end_ns));
      }
    });
  }
  std::string out;
  if (!group.heading.empty()) {
    out = bold(wrap(group.heading, terminal.width), terminal.colour) + "\n\n";
  }
  Picture::Signs signs;
  std::size_t margin = 0;
  for (const TimelinePanel& panel : group.panels) {
    Picture::Frame frame = Picture::frame_of(panel);
    frame.makespan_ns = longest_ns;
    frame.longest_list = longest_list;
    frame.unit_ns = unit_ns;
    Picture picture(std::move(frame), terminal);
    panel.replay([&](const Span& span) { picture.add(span); });
    if (&panel == &group.panels.front()) out += picture.axis();
    if (!panel.title.empty()) out += wrap(panel.title, terminal.width) + "\n";
    out += picture.rows();
    signs.add(picture.signs());
    margin = picture.margin();
  }
  out += Picture::legend(signs, margin, terminal.width, terminal.colour);
  return group.note.empty() ? out : out + wrap(group.note, terminal.width) + "\n";
}

}  // namespace pipesim
