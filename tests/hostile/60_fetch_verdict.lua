-- row: 60
-- where: fetch
-- expect: error
-- says: make it inside of pod()
return { a = fence.skip('x') }
