// The channels of a link (exec/device/link.h) that a training needs.
// They connect ranks of a pipeline, and each replica has its own. Activations and gradients have
// separate channels: if both go from one rank to the same other one, as in a V, neither waits for
// the other.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/device/link.h"
#include "exec/run/training.h"
#include "exec/transport/linked.h"

namespace pipesim::exec {

// The channel of a SEND or RECV.
Channel channel_of(const Placement& placement, const Action& transfer);

// All of them, in the order in which to open them. Throws an input error if a rank receives the
// messages of a channel in another order than they are sent in: messages would be swapped. With the
// same order, a program that finishes with posted receives never deadlocks: earlier messages on the
// channel were sent, and their receives reached, before this one.
std::vector<Channel> channels_of(const TrainingJob& training);

// Called by all ranks of `control`: links the devices of each pipeline, and those of replicas for
// gathers, and for gradients if the link is to sum them.
std::unique_ptr<LinkedTransport> link_devices(Transport& control, Device& device,
                                              const LinkLibrary& library, const std::string& name,
                                              const TrainingJob& training);

// Waits until the device has passed the mark; when patience is over, throws TimedOut, "waited 5 s
// for <what>".
void wait_on_link(Device& device, DeviceLink& link, Mark mark,
                  std::optional<std::chrono::nanoseconds> patience, const std::string& what);

}  // namespace pipesim::exec
