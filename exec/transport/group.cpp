#include "exec/transport/group.h"

namespace pipesim::exec {

GroupTransport::GroupTransport(Transport& below, const RankGroup& ranks)
    : below_(below), ranks_(ranks) {
  while (on_below(rank_) != below.rank()) ++rank_;
  if (below.patience()) set_patience(*below.patience());
}

}  // namespace pipesim::exec
