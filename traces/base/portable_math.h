// Logarithms and exponentials by arithmetic alone: libraries differ in the last places, and
// results must be the same on every machine. Accurate to a few units in the
// last place. Pure; any thread.
#pragma once

namespace pipesim {

// For positive arguments.
double logarithm(double x);

// 0 and infinity beyond the range of a double.
double exponential(double x);

// (e^x - 1) / x and log(1 + x) / x, continuous at 0.
double exponential_ratio(double x);
double logarithm_ratio(double x);

}  // namespace pipesim
