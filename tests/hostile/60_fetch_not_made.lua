-- row: 60
-- where: fetch
-- expect: error
-- says: it must be a request made by
return { a = { endpoint = 'storage', path = '/v2' } }
