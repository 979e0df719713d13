// What `pipesim plan --why` says of one layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/search.h"

namespace pipesim::cli {

inline constexpr int max_faster_splits = 100;  // that are counted

struct CertificateView {
  const PlanSpace& space;
  const PlanPoint& point;
  const PlanCertificate& certificate;
  std::int64_t memory_cap_bytes;
  std::int64_t certain_bytes;                 // the largest peak that fits with its whole band
  const std::vector<PlanOutcome>& best;       // of all that fit, as many as were asked for
  std::optional<std::int64_t> faster_splits;  // that fit; absent of what can't be
  const std::vector<std::string>& flags;      // as a PlanView has them
  std::string outside = {};                   // flags that no layout of the space has: " --group 8"
  std::string why = {};                       // it is slower than the best
};

std::string certificate_report(const CertificateView& view, int width);
std::string certificate_json(const CertificateView& view);

}  // namespace pipesim::cli
