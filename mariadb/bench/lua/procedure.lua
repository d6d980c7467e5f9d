-- Calls a stored procedure that reads and updates one row in a transaction.

sysbench.cmdline.options = {
   table_size = {"Rows of sbtest.sbtest1", 10000}
}

local con

function thread_init()
   con = sysbench.sql.driver():connect()
end

function event()
   con:query(string.format("CALL matrix.work(%d)", sysbench.rand.default(1, sysbench.opt.table_size)))
end

function thread_done()
   con:disconnect()
end
