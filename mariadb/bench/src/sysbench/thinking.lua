-- Runs the script named by FLIFO_SCRIPT; each client pauses after each transaction for an exponentially distributed time with
-- the mean FLIFO_THINK_US.
require(os.getenv("FLIFO_SCRIPT"))

local ffi = require("ffi")
ffi.cdef("int usleep(unsigned int us);")

local mean_us = tonumber(os.getenv("FLIFO_THINK_US"))
local run_transaction = event

function event(...)
   run_transaction(...)
   ffi.C.usleep(math.floor(-math.log(1 - sysbench.rand.uniform_double()) * mean_us))
end
