# The demo and the service, as a user that is not root:
#   docker build -t pqr .
#   docker run --rm pqr                       # pqr demo
#   docker run --rm -v "$PWD:/data" pqr train clicks.csv --label click -o clicks.pqr
#   docker run -p 8080:8080 -v clicks:/data -v "$PWD/tokens.toml:/tokens.toml:ro" \
#     pqr serve /data --host 0.0.0.0 --tokens /tokens.toml

FROM python:3.13-slim AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY CMakeLists.txt pyproject.toml README.md LICENSE ./
COPY csrc csrc
COPY src src
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[serve,zst]"

FROM python:3.13-slim
# hadolint ignore=DL3013
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "pqrlearn[serve,zst]" \
    && useradd --create-home --uid 1000 pqr \
    && install --directory --owner pqr /data
USER 1000
WORKDIR /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --start-period=30s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/healthz', timeout=3)"]
ENTRYPOINT ["pqr"]
CMD ["demo"]
