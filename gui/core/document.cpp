#include "gui/core/document.h"

namespace pipesim::gui {

Source OpenTrace::source() const { return {}; }
const Warnings& OpenTrace::warnings() const { return run->warnings; }
OperationId Pair::find(Side, Ref) const { return no_operation; }
std::optional<Side> Document::side_of(int) const { return {}; }
Document open_traces(const std::vector<std::string>&, const Report&) { return {}; }
Document add_traces(const Document& d, const std::vector<std::string>&, const Report&) { return d; }
Document compared(const Document& d, int, int) { return d; }
Document without_trace(const Document& d, int) { return d; }
std::string label_of(const OpenTrace&, Ref) { return {}; }

}  // namespace pipesim::gui
