-- A transaction that updates one of a few rows in its middle, with a read before and a read after it.
-- --pause-us: sleep while the row is locked. --reads=off: only the update, so that the script counts as no reader.

sysbench.cmdline.options = {
   table_size = {"Rows of sbtest.sbtest1, of which one is read at a time", 10000},
   hot_rows = {"Rows of matrix.hot of which one is updated", 10},
   pause_us = {"Microseconds of sleep after the update", 0},
   reads = {"Read a row before and a row after the update", true}
}

local ffi = require("ffi")
ffi.cdef("int usleep(unsigned int us);")

local INT = sysbench.sql.type.INT
local con, read_row, update_row, read_id, update_id

function thread_init()
   con = sysbench.sql.driver():connect()
   read_row = con:prepare("SELECT c FROM sbtest.sbtest1 WHERE id = ?")
   read_id = read_row:bind_create(INT)
   read_row:bind_param(read_id)
   update_row = con:prepare("UPDATE matrix.hot SET k = k + 1 WHERE id = ?")
   update_id = update_row:bind_create(INT)
   update_row:bind_param(update_id)
end

local function read()
   if sysbench.opt.reads then
      read_id:set(sysbench.rand.default(1, sysbench.opt.table_size))
      read_row:execute()
   end
end

function event()
   con:query("BEGIN")
   read()
   update_id:set(sysbench.rand.uniform(1, sysbench.opt.hot_rows))
   update_row:execute()
   if sysbench.opt.pause_us > 0 then
      ffi.C.usleep(sysbench.opt.pause_us)
   end
   read()
   con:query("COMMIT")
end

function thread_done()
   read_row:close()
   update_row:close()
   con:disconnect()
end
