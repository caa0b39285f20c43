-- row: 60
-- where: fetch
-- expect: error
-- says: inputs are read-only
got.vol = { status = 200 }
