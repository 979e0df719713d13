#include "sim/schedule/families/v_shaped.h"

namespace pipesim::families {

Family v_shaped() {
  Family family;
  family.default_chunks = 2;
  family.placement = "v";
  family.splits_backward = true;
  family.objection = not_a_v;
  return family;
}

std::string not_a_v(const Shape& shape) {
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int down = shape.place(rank);
    if (shape.stage(rank, chunk_down) == down &&
        shape.stage(rank, chunk_up) == 2 * shape.ranks - 1 - down) {
      continue;
    }
    return "places its stages down the ranks and up again; omit --placement, or give a list "
           "such as 1,0,0,1";
  }
  return {};
}

void RankWriter::overlapped(int forward_chunk, int backward_chunk) {
  Action action = make_action(shape_.stage(rank_, forward_chunk), Kind::F,
                              counts_.forwards[at(forward_chunk)]++);
  action.joined = true;
  out_.add(action);
  backward(backward_chunk);
}

}  // namespace pipesim::families
