#include "gui/scene/flame.h"

#include "sim/compare/comparison.h"

namespace pipesim::gui {

FlameGraph flame_graph_of(const Document& document) {
  return flame_graph([&](StackCollector& collector) {
    for (int trace = 0; trace < static_cast<int>(document.traces.size()); ++trace) {
      const OpenTrace& own = document.trace(trace);
      if (document.traces.size() > 1) {
        const auto side = document.side_of(trace);
        collector.set_around(side ? std::string(side_name(document.pair->comparison, *side))
                                  : own.name);
      }
      if (own.run) collector.add(*own.run);
      if (own.events) collector.add(*own.events);
    }
  });
}

}  // namespace pipesim::gui
