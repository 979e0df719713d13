// Everything that is compared with published figures, computed once.
//
// Plain values; any thread.
#pragma once

#include <string>
#include <vector>

#include "bench/validation/closed_forms.h"
#include "bench/validation/predictions.h"
#include "bench/validation/rows.h"
#include "bench/validation/schedule_figures.h"

namespace pipesim::validation {

// A row of that table, in the table's order.
struct ProductRow {
  std::string name;
  double published = 0;  // share of the peak
  double computed = 0;
  bool fitted = false;

  // Of the time, as everywhere.
  double error() const { return published / computed - 1; }
};

std::vector<ProductRow> examine_products(const MatmulTable& table, const Device& device);

// Errors of some rows, under the name that goals and bounds know it by.
struct Measure {
  std::string name;
  ErrorSummary errors;
};

struct Findings {
  Device device;  // whose constants predicted all rows of A100
  std::vector<Row> rows;
  std::vector<Row> sc21_at_1;      // with a software factor of 1
  std::vector<Row> b200_unhidden;  // with no reduction beside products
  std::vector<Outcome> outcomes;
  std::vector<Outcome> outcomes_at_1;
  std::vector<Outcome> outcomes_unhidden;
  std::vector<ProductRow> products;
  std::vector<BytesRow> bytes;
  std::vector<Figure> rates;
  std::vector<Figure> ratios;
  std::vector<Figure> speedups;
  std::vector<Measure> measures;

  std::vector<Outcome> of(Source source) const;
  // Throws where no measure has that name.
  const ErrorSummary& measure(const std::string& name) const;

  // Outcomes point into the rows.
  Findings() = default;
  Findings(const Findings&) = delete;
  Findings(Findings&&) = default;
  Findings& operator=(Findings&&) = default;
};

// `folder` holds the published figures. Throws what read_rows() does.
Findings examine(const std::string& folder);

// "korthikanti", as measures are named.
std::string_view source_name(Source source);

}  // namespace pipesim::validation
