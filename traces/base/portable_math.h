// Logarithms and exponentials by arithmetic alone: libraries' differ in last places, and what is
// drawn or computed from these is to be the same on every machine. Right to some units of the
// last place. Pure; any thread.
#pragma once

namespace pipesim {

// Of what is above 0.
double logarithm(double x);

// 0 and infinity beyond what a double holds.
double exponential(double x);

// (e^x - 1) / x and log(1 + x) / x, which go on through 0.
double exponential_ratio(double x);
double logarithm_ratio(double x);

}  // namespace pipesim
