#include "exec/input_pipeline/lane_exchange.h"

#include <exception>

#include "traces/base/threads.h"

namespace pipesim::exec {

void exchange_apart(Transport& transport, const std::string& what,
                    const std::function<void(InputExchange&)>& work) {
  Courier courier(transport);
  std::exception_ptr error, courier_error;
  {
    const std::jthread thread = start_thread("to exchange " + what, [&] {
      try {
        LaneExchange exchange(courier, 0, what);
        work(exchange);
      } catch (const Courier::Stopped&) {  // carry() says why
      } catch (...) {
        error = std::current_exception();
      }
      courier.stop();
    });
    try {
      courier.carry();
    } catch (...) {
      courier_error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
  if (courier_error) std::rethrow_exception(courier_error);
}

}  // namespace pipesim::exec
