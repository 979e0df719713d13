#include "gui/core/tables.h"

namespace pipesim::gui {

Table cause_table(const Document&) { return {}; }
Table stage_kind_table(const Document&) { return {}; }
Table operation_table(const Document&, std::size_t) { return {}; }
Table gap_table(const Document&) { return {}; }
Table bubble_table(const Document&) { return {}; }
Table name_table(const Document&, std::size_t) { return {}; }
Table trace_table(const Document&) { return {}; }
std::string verdict(const Document&) { return {}; }
std::string to_csv(const Table&) { return {}; }

}  // namespace pipesim::gui
