#include "traces/read/event_trace.h"

namespace pipesim {

EventTrace read_event_trace(const std::string&, const ReadProgress&) { return {}; }

}  // namespace pipesim
